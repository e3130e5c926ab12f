# Five verbs: setup, check, test, bench, demo. Each works on a fresh clone that has nothing but Python and make.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help setup check format test test-fast soak bench demo clean

help:  ## show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY)  ## make .venv with everything that development needs

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

check: setup  ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## put files into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test-fast: setup  ## the tests that take less than two minutes together
	$(BIN)/pytest -m 'not slow and not soak' -n 2

test: setup  ## everything that a release needs
	$(BIN)/pytest -m 'not soak' -n 2

soak: setup  ## long runs
	$(BIN)/pytest -m soak --timeout 3600

bench: setup  ## Shoal beside its peers (makes a virtual environment of its own)
	$(BIN)/python -m benchmarks.throughput
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.cold_start
	$(BIN)/python -m benchmarks.first_ready
	$(BIN)/python -m benchmarks.supervision
	$(BIN)/python -m benchmarks.worlds
	$(BIN)/python -m benchmarks.text
	$(BIN)/python -m benchmarks.text.managers
	$(BIN)/python -m benchmarks.text.levels
	$(BIN)/python -m benchmarks.rollouts
	$(BIN)/python -m benchmarks.cage2
	$(BIN)/python -m benchmarks.profiling
	$(BIN)/python -m benchmarks.faults
	$(BIN)/python -m benchmarks.training
	$(BIN)/python -m benchmarks.training.cage2

demo: setup  ## where workers pay and where not, same results on every backend; then a policy that learns in about a minute
	$(BIN)/shoal demo

clean:  ## remove what the other verbs made
	rm -rf .venv benchmarks/.venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
