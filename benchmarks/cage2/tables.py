"""What was found, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from benchmarks.cage2.contestants import BACKENDS, CONTESTANTS, Contestant, Game
from benchmarks.cage2.original import REPORTED, REPORTED_SEQUENTIAL, SIZES, OriginalRecord
from benchmarks.cage2.plan import ALL_SIZES
from benchmarks.cage2.sizes import TARGET, GrowthRecord, SizeRecord
from benchmarks.cage2.turns import Rates
from benchmarks.throughput.ratios import paired_ratio
from shoal.vector.profile.tracks import Share

REPORTED_SHARES = {
    Share.BARRIER: "47 %",
    Share.COPYING: "20 %, with signalling",
    Share.MANAGEMENT: "8 %",
}
REPORTED_TRUE_STATES = "48 %"
"""They overlap: together they are more than the whole."""
_UNITS = ((1e6, " M"), (1e3, " k"), (1.0, ""))


def sizes_table(records: Sequence[SizeRecord]) -> Table:
    columns = ("", "backend", *(f"{num_envs:,}" for num_envs in ALL_SIZES))
    table = _table("Steps a second, by number of environments: median [lowest-highest]", columns)
    found = {(record.contestant, record.num_envs): record.rates for record in records}
    for contestant in CONTESTANTS:
        rates = [found.get((contestant, num_envs)) for num_envs in ALL_SIZES]
        cells = ["not run" if each is None else rate_text(each) for each in rates]
        table.add_row(contestant.game, _backend(contestant), *cells, style=_style(contestant))
    return table


def growth_table(record: GrowthRecord) -> Table:
    table = _table(
        "The world on one core: does a step cost more among many?",
        ("environments", "steps a second", "a step takes", "times as long", "target"),
    )
    ratio = record.times_as_long
    interval = "" if ratio.low is None else f" [{ratio.low:.2f}-{ratio.high:.2f}]"
    for size, times, target in (
        (record.few, "", ""),
        (record.many, f"{ratio.value:.2f}{interval}", f"≤ {TARGET}"),
    ):
        assert size.rates is not None
        missed = target and ratio.value > TARGET
        nanoseconds = f"{1e9 / size.rates.median:,.0f} ns"
        style = "yellow" if missed else ""
        table.add_row(f"{size.num_envs:,}", rate_text(size.rates), nanoseconds, times, target, style=style)
    return table


def original_table(records: Sequence[OriginalRecord], game: Game) -> Table:
    table = _table(
        f"The setting of the original, {game}: transitions a second, median [lowest-highest]",
        ("environments", "backend", "reported", "measured", "asking for true states", "asking takes"),
    )
    for num_envs in SIZES:
        for backend in BACKENDS:
            plain, asking = (_find(records, Contestant(game, backend), num_envs, asks) for asks in (False, True))
            rates = rate_text(plain.rates), rate_text(asking.rates), f"{_asking_share(plain, asking):.0%}"
            table.add_row(str(num_envs), backend, f"{REPORTED[num_envs, backend]:,}", *rates)
        if game == "stand-in" and num_envs == REPORTED_SEQUENTIAL[0]:
            table.add_row(str(num_envs), "sequential, training", f"{REPORTED_SEQUENTIAL[1]:,}", style="dim")
    return table


def shares_table(records: Sequence[OriginalRecord], game: Game, num_envs: int) -> Table:
    """Of the runs in worker processes; beside them what was reported, which concerns the original's pipes."""
    profiled = [(each, each.shares) for each in records if (each.contestant.game, each.num_envs) == (game, num_envs)]
    runs = [(record, shares) for record, shares in profiled if shares is not None]
    names = [f"{record.contestant.backend}{', asking' if record.asks else ''}" for record, _ in runs]
    table = _table(f"What workers' time is spent on, {num_envs} x {game}", ("", *names, "reported"))
    for share in Share:
        measured = [f"{shares[share.value]:.0%}" for _, shares in runs]
        name = "caller" if share is Share.POLICY else share.value
        table.add_row(name, *measured, REPORTED_SHARES.get(share, ""), end_section=share is Share.POLICY)
    # A profile does not tell a step from an answer: both are the environments' time, and both are copied.
    asking = [
        f"{_asking_share(_find(records, record.contestant, num_envs, asks=False), record):.0%}" if record.asks else ""
        for record, _ in runs
    ]
    table.add_row("true states (in all of these)", *asking, REPORTED_TRUE_STATES)
    return table


def disturbed_text(rates: Iterable[Rates | None]) -> str:
    taken = [each for each in rates if each is not None]
    disturbed, total = sum(each.disturbed for each in taken), sum(len(each.values) for each in taken)
    return f"{disturbed} of {total} measurements were taken on an unsteady machine"


def rate_text(rates: Rates) -> str:
    """Three digits, in the unit of the median."""
    scale, unit = next(each for each in _UNITS if rates.median >= each[0] or each[0] == 1.0)
    median, low, high = (_three_digits(value / scale) for value in (rates.median, min(rates.values), max(rates.values)))
    return f"{median}{unit} [{low}-{high}]"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _asking_share(plain: OriginalRecord, asking: OriginalRecord) -> float:
    """Of the time of a step with asking, what asking takes: the median of pairs that were taken back to back."""
    return 1 - paired_ratio(asking.rates.values, plain.rates.values).value


def _find(records: Sequence[OriginalRecord], contestant: Contestant, num_envs: int, asks: bool) -> OriginalRecord:
    wanted = (contestant, num_envs, asks)
    return next(each for each in records if (each.contestant, each.num_envs, each.asks) == wanted)


def _backend(contestant: Contestant) -> str:
    return "serial, one core" if contestant.backend == "serial" else contestant.backend


def _style(contestant: Contestant) -> str:
    return "bold cyan" if contestant.game == "world" else ""


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=escape(title), title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 or column == "backend" else "right")
    return table
