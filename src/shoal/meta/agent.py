"""The agent while it acts: NumPy in, NumPy out, and no row depends on another.

::

    agent = learner.agent
    memory = agent.get_initial_info(num_rows=8)
    action, state = agent.act(observations, memory.internal_state, memory.action, memory.reward)

It has the weights of the moment when :meth:`Agent.take` was last called.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from shoal.meta.actions import Choices, Numbers
from shoal.meta.network import AgentNetwork, Memory
from shoal.meta.row_kernels import dense, gru_step, lstm_step
from shoal.vector.layout import Array


class InitialInfo(NamedTuple):
    """With what a rollout begins."""

    action: Array
    """The action before: none, so zeros. (rows, numbers of an action)"""
    reward: Array
    """(rows, 1)"""
    internal_state: Array
    """What is remembered: (rows, numbers), of which there are none if the actor has no memory."""


class Acted(NamedTuple):
    """What an agent does."""

    action: Array
    """(rows, numbers of an action)"""
    internal_state: Array
    """To be given with the next observation."""


class Agent:
    """Acts with an actor's weights."""

    def __init__(self, network: AgentNetwork, actions: Choices | Numbers, seed: int = 0) -> None:
        self.actions = actions
        self.random = np.random.default_rng(seed)
        self.state_size = network.actor_memory.state_size if isinstance(network.actor_memory, Memory) else 0
        self.take(network)

    def take(self, network: AgentNetwork) -> None:
        """From now on, act with the weights that this network has now."""
        self._layers = [_transposed(layer) for layer in network.actor if isinstance(layer, nn.Linear)]
        memory = network.actor_memory
        self._memory = _RowMemory(memory) if isinstance(memory, Memory) else None

    def get_initial_info(self, num_rows: int = 1) -> InitialInfo:
        """For so many rows that begin a task."""
        sizes = self.actions.width, 1, self.state_size
        return InitialInfo(*(np.zeros((num_rows, size), np.float32) for size in sizes))

    def act(
        self,
        obs: Array,
        prev_internal_state: Array | None = None,
        prev_action: Array | None = None,
        reward: Array | None = None,
        deterministic: bool = False,
        noise: Array | None = None,
    ) -> Acted:
        """Actions for these observations, a row each; what came before counts for an actor with a memory only.

        Args:
            obs: (rows, numbers).
            prev_internal_state: what the last call returned; by default, all rows begin a task.
            prev_action: the action before.
            reward: what it brought, (rows, 1).
            deterministic: the most likely action.
            noise: random numbers for the actions, by default from the agent's own generator.
        """
        start = self.get_initial_info(len(obs))
        state = start.internal_state if prev_internal_state is None else prev_internal_state
        outputs = obs
        if self._memory is not None:
            action = start.action if prev_action is None else prev_action
            before = start.reward if reward is None else reward
            outputs, state = self._memory.step(outputs, action, before, state)
        for number, (weights, biases) in enumerate(self._layers, start=1):
            outputs = _through(outputs, weights, biases, is_rectified=number < len(self._layers))
        if deterministic:
            return Acted(self.actions.best(outputs), state)
        if noise is None:
            noise = self.actions.noise(self.random, len(obs))
        return Acted(self.actions.draw(outputs, noise), state)


class _RowMemory:
    """A :class:`Memory`, one step at a time."""

    def __init__(self, memory: Memory) -> None:
        self._embeddings = [
            None if layer is None else _transposed(layer)
            for layer in (memory.of_observation, memory.of_action, memory.of_reward)
        ]
        recurrent = memory.recurrent
        self._step = gru_step if isinstance(recurrent, nn.GRU) else lstm_step
        self._size = recurrent.hidden_size
        of_inputs, of_states, input_biases, state_biases = map(_flat, recurrent.parameters())
        self._of_inputs, self._of_states = (of_inputs, input_biases), (of_states, state_biases)

    def step(self, observations: Array, actions: Array, rewards: Array, states: Array) -> tuple[Array, Array]:
        """Features, and what is remembered now."""
        parts = [
            _through(values, *layer, is_rectified=True)
            for values, layer in zip((observations, actions, rewards), self._embeddings, strict=True)
            if layer is not None
        ]
        seen = _through(np.concatenate(parts, axis=1), *self._of_inputs)
        known = _through(states[:, : self._size], *self._of_states)
        after = np.empty_like(states)
        self._step(seen, known, np.ascontiguousarray(states), after)
        return np.concatenate([after[:, : self._size], parts[0]], axis=1), after


def _through(inputs: Array, weights: Array, biases: Array, is_rectified: bool = False) -> Array:
    outputs = np.empty((len(inputs), len(biases)), np.float32)
    dense(np.ascontiguousarray(inputs, np.float32), weights, biases, is_rectified, outputs)
    return outputs


def _transposed(layer: nn.Linear) -> tuple[Array, Array]:
    return _flat(layer.weight), _flat(layer.bias)


def _flat(parameter: torch.Tensor) -> Array:
    """A copy, input by input, which does not change when the network learns."""
    copied: Array = parameter.detach().t().flatten().numpy().copy()
    return copied
