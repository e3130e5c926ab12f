"""Learning with a few layers on the CPU: gradients by hand, because asking torch for them takes longer than the arithmetic.

A minibatch is cut into chunks whose numbers fit into a processor's cache. Each has a gradient of its own, and these are added
up in order, so that the result does not depend on how many threads there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from threadpoolctl import ThreadpoolController
from torch import nn

from shoal.ppo.config import PPOConfig
from shoal.ppo.heads import Head, Push
from shoal.ppo.kernels import adam, value_loss
from shoal.ppo.layers import Desk, Layer, backward, forward
from shoal.ppo.learning import SAID, Samples, normalised
from shoal.ppo.network import Network
from shoal.vector.layout import Array

CHUNK = 1024
"""Rows that are computed at once, at most."""
DECAY, SQUARE_DECAY, TINY = 0.9, 0.999, 1e-5


class Weights:
    """All weights of a network, or their gradients: one row of numbers, and as layers."""

    def __init__(self, network: Network, flat: Array) -> None:
        self.flat = flat
        begin, views = 0, {}
        for name, parameter in network.named_parameters():
            views[name] = flat[begin : begin + parameter.numel()].reshape(parameter.shape)
            begin += parameter.numel()
        self.policy, self.value = (
            [
                Layer(views[f"{part}.{number}.weight"], views[f"{part}.{number}.bias"])
                for number, layer in enumerate(layers)
                if isinstance(layer, nn.Linear)
            ]
            for part, layers in (("policy", network.policy), ("value", network.value))
        )
        self.log_deviation: Array = views.get("log_deviation", np.empty(0, np.float32))


class Workplace:
    """What a thread needs for itself."""

    def __init__(self, weights: Weights) -> None:
        self.policy, self.value = Desk(weights.policy, CHUNK), Desk(weights.value, CHUNK)
        self.seen = np.empty((CHUNK, weights.policy[0].weights.shape[1]), np.float32)


class CompiledLearner:
    """Changes the weights of a network in place."""

    def __init__(self, network: Network, head: Head, config: PPOConfig) -> None:
        self._network, self._head, self._config = network, head, config
        self._weights = Weights(network, in_one_piece(network))
        self._means, self._squares = np.zeros_like(self._weights.flat), np.zeros_like(self._weights.flat)
        self._num_steps = 0
        self._gradients: list[Weights] = []
        self._workplaces = [Workplace(self._weights) for _ in range(config.torch_threads or 1)]
        self._pool: ThreadPoolExecutor | None = None
        self._blas = ThreadpoolController().select(user_api="blas")

    def judge(
        self, observations: Array, begins: Array, first_states: torch.Tensor | None, actions: Array, masks: Array | None
    ) -> tuple[Array, Array]:
        """Values of all observations, and log-probabilities of the actions that followed all but the last."""
        steps, num_envs = observations.shape[:2]
        rows = observations.reshape(steps * num_envs, -1)
        values = np.empty(len(rows), np.float32)
        outputs = np.empty(((steps - 1) * num_envs, self._head.num_outputs), np.float32)

        def judge_some(place: Workplace, number: int, chunk: slice) -> None:
            seen, target = rows[chunk], outputs[chunk]
            values[chunk] = forward(self._weights.value, self._network.is_tanh, seen, place.value)[:, 0]
            if len(target):
                seen = seen[: len(target)]
                target[:] = forward(self._weights.policy, self._network.is_tanh, seen, place.policy)

        self._in_chunks(len(rows), judge_some)
        log_probabilities = self._head.log_probability_by_hand(
            outputs,
            self._weights.log_deviation,
            actions.reshape(len(outputs), -1),
            None if masks is None else masks.reshape(len(outputs), -1),
        )
        return values.reshape(steps, num_envs), log_probabilities.reshape(steps - 1, num_envs)

    def take(self, samples: Samples) -> Array:
        """From now on, learn from these. All that were steps may be chosen."""
        flat = {
            name: part.reshape(-1, *part.shape[2:]) if isinstance(part, np.ndarray) else None
            for name, part in samples._asdict().items()
        }
        self._samples = Samples(**flat)  # type: ignore[arg-type]  # only masks and states may be missing
        return np.flatnonzero(samples.is_valid)

    def improve(self, chosen: Array, rate: float) -> Array:
        """One step with some of the samples. Returns the means of what it says about itself."""
        advantages = self._samples.advantages[chosen]
        if self._config.normalise_advantages:
            advantages = normalised(advantages)
        num_chunks = num_chunks_of(len(chosen))
        said = np.zeros((num_chunks, len(SAID)))
        while len(self._gradients) < num_chunks:
            self._gradients.append(Weights(self._network, np.empty_like(self._weights.flat)))

        def add_some(place: Workplace, number: int, chunk: slice) -> None:
            share = np.float32(1.0 / len(chosen))
            self._slope_of(chosen[chunk], advantages[chunk], share, place, self._gradients[number], said[number])

        self._in_chunks(len(chosen), add_some)
        gradient = self._gradients[0].flat
        for other in self._gradients[1:num_chunks]:
            gradient += other.flat
        self._descend(gradient, rate)
        means: Array = said.sum(axis=0) / len(chosen)
        return means

    def _slope_of(
        self, chosen: Array, advantages: Array, share: np.float32, place: Workplace, gradients: Weights, said: Array
    ) -> None:
        """The gradient of the loss of some samples."""
        config, samples, weights, is_tanh = self._config, self._samples, self._weights, self._network.is_tanh
        seen = np.take(samples.observations, chosen, axis=0, out=place.seen[: len(chosen)])

        outputs = forward(weights.policy, is_tanh, seen, place.policy)
        masks = None if samples.masks is None else samples.masks[chosen]
        push = Push(
            samples.actions[chosen], masks, samples.log_probabilities[chosen], advantages, np.float32(config.clip),
            np.float32(config.entropy_coefficient), share,
        )  # fmt: skip
        slope = place.policy.slopes[-1][: len(chosen)]
        self._head.loss_by_hand(outputs, weights.log_deviation, push, slope, gradients.log_deviation, said)
        backward(weights.policy, is_tanh, seen, place.policy, gradients.policy)

        values = forward(weights.value, is_tanh, seen, place.value)
        value_loss(
            values, samples.values[chosen], samples.returns[chosen], np.float32(config.value_clip or 0.0),
            np.float32(config.value_coefficient) * share, place.value.slopes[-1], said,
        )  # fmt: skip
        backward(weights.value, is_tanh, seen, place.value, gradients.value)

    def _descend(self, gradient: Array, rate: float) -> None:
        """A step of Adam."""
        self._num_steps += 1
        first, second = 1 - DECAY**self._num_steps, 1 - SQUARE_DECAY**self._num_steps
        settings = (self._config.max_gradient_norm, rate / first, DECAY, SQUARE_DECAY, second**-0.5, TINY)
        adam(self._weights.flat, gradient, self._means, self._squares, *map(np.float32, settings))

    def _in_chunks(self, count: int, work: Callable[[Workplace, int, slice], None]) -> None:
        """Do the work for chunks of so many rows, on as many threads as there are."""
        num_chunks = num_chunks_of(count)
        chunks = [
            slice(count * number // num_chunks, count * (number + 1) // num_chunks) for number in range(num_chunks)
        ]
        num_threads = min(len(self._workplaces), num_chunks)

        def share_of(thread: int) -> None:
            for number in range(thread, num_chunks, num_threads):
                work(self._workplaces[thread], number, chunks[number])

        with self._blas.limit(limits=1):  # its threads and these would be in each other's way
            if num_threads == 1:
                share_of(0)
                return
            if self._pool is None:
                self._pool = ThreadPoolExecutor(len(self._workplaces) - 1, thread_name_prefix="shoal-ppo")
            others = [self._pool.submit(share_of, thread) for thread in range(1, num_threads)]
            share_of(0)
            for other in others:
                other.result()

    def tensors(self) -> dict[str, torch.Tensor]:
        """What Adam knows, under torch's names, so that either can go on where the other was."""
        if not self._num_steps:
            return {}
        tensors = {}
        for number, (means, squares) in enumerate(self._moments()):
            tensors[f"{number}.step"] = torch.tensor(float(self._num_steps))
            tensors[f"{number}.exp_avg"] = torch.from_numpy(means)
            tensors[f"{number}.exp_avg_sq"] = torch.from_numpy(squares)
        return tensors

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Go on from there."""
        self._num_steps = int(tensors["0.step"]) if tensors else 0
        for number, (means, squares) in enumerate(self._moments()):
            means[:] = tensors[f"{number}.exp_avg"].numpy() if tensors else 0
            squares[:] = tensors[f"{number}.exp_avg_sq"].numpy() if tensors else 0

    def _moments(self) -> Iterator[tuple[Array, Array]]:
        """Means and squares of every parameter, of which all together are one row of numbers."""
        begin = 0
        for parameter in self._network.parameters():
            its = slice(begin, begin + parameter.numel())
            yield self._means[its].reshape(parameter.shape), self._squares[its].reshape(parameter.shape)
            begin = its.stop

    def close(self) -> None:
        """End its threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def num_chunks_of(count: int) -> int:
    """One, or as few as can be for an even number, so that two threads have the same to do."""
    return 1 if count <= CHUNK else 2 * -(-count // (2 * CHUNK))


def in_one_piece(network: Network) -> Array:
    """All parameters as one row of numbers, of which the network's own are from now on views."""
    flat = nn.utils.parameters_to_vector(network.parameters()).detach()
    nn.utils.vector_to_parameters(flat, network.parameters())
    numbers: Array = flat.numpy()
    return numbers
