"""Learning to learn in one file: a recurrent soft actor-critic plays GridNavi, with a different goal in every environment.

python examples/08_meta_rl.py         a few seconds, to see how it begins
python examples/08_meta_rl.py 300     until it searches for the goal in the first episode and goes straight to it in the others

The goal is somewhere in a grid, and is not seen. The agent has four episodes for it: it must search in the first and remember
in the others. Everything below is here on purpose, so that it can be changed: `shoal.meta.Learner` does the same with less to
write and more to choose.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from shoal.meta import make_parallel_env

ENV, EPISODES_PER_TASK, NUM_WORKERS, SEED = "GridNavi-v0", 4, 32, 1
ITERATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 4
RANDOM_ROLLOUTS, ROLLOUTS_PER_ITERATION, UPDATES_PER_ITERATION = 64, 32, 32
BATCH_SIZE, MOST_ROLLOUTS = 32, 10_000
GAMMA, TAU, LEARNING_RATE, ALPHA_LEARNING_RATE, UNITS = 0.95, 0.01, 1e-3, 3e-3, 64
FIRST_ALPHA, ENTROPY_RATIO = 0.05, 0.1

torch.manual_seed(SEED)
torch.set_num_threads(1)
random = np.random.default_rng(SEED)

envs = make_parallel_env(ENV, EPISODES_PER_TASK, NUM_WORKERS, seed=SEED)
NUM_ACTIONS, HORIZON = int(envs.action_space.n), envs.horizon_bamdp
OBSERVATION_SIZE = envs.observation_space.shape[0]


# -- networks --------------------------------------------------------------------------------------------------------------


class Memory(nn.Module):
    """What has happened so far: the observation, and the action and the reward before it, through a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.of_inputs = nn.Linear(OBSERVATION_SIZE + NUM_ACTIONS + 1, UNITS)
        self.recurrent = nn.GRU(UNITS, UNITS)

    def forward(self, observations, actions, rewards, state=None):
        inputs = torch.relu(self.of_inputs(torch.cat([observations, actions, rewards], dim=-1)))
        remembered, state = self.recurrent(inputs, state)
        return torch.cat([remembered, observations], dim=-1), state


def head() -> nn.Sequential:
    return nn.Sequential(nn.Linear(UNITS + OBSERVATION_SIZE, 128), nn.ReLU(), nn.Linear(128, NUM_ACTIONS))


class Critics(nn.Module):
    """A memory, and two judgements of every action."""

    def __init__(self) -> None:
        super().__init__()
        self.memory, self.first, self.second = Memory(), head(), head()


critics, targets, actor = Critics(), Critics(), head()
targets.load_state_dict(critics.state_dict())
log_alpha = nn.Parameter(torch.tensor(FIRST_ALPHA).log())
optimiser = torch.optim.Adam([*critics.parameters(), *actor.parameters()], lr=LEARNING_RATE)
alpha_optimiser = torch.optim.Adam([log_alpha], lr=ALPHA_LEARNING_RATE)
WANTED_ENTROPY = ENTROPY_RATIO * float(np.log(NUM_ACTIONS))


# -- what was seen ---------------------------------------------------------------------------------------------------------


class Rollouts:
    """Whole rollouts; the newest take the place of the oldest. Time comes first."""

    def __init__(self) -> None:
        self.observations = np.zeros((HORIZON + 1, MOST_ROLLOUTS, OBSERVATION_SIZE), np.float32)
        self.actions = np.zeros((HORIZON, MOST_ROLLOUTS, NUM_ACTIONS), np.float32)
        self.rewards = np.zeros((HORIZON, MOST_ROLLOUTS, 1), np.float32)
        self.mask = np.zeros((HORIZON, MOST_ROLLOUTS, 1), np.float32)
        self.count = 0

    def add(self, observations, actions, rewards) -> None:
        place, length = self.count % MOST_ROLLOUTS, len(rewards)
        self.observations[: length + 1, place] = observations
        self.actions[:length, place] = actions
        self.rewards[:length, place, 0] = rewards
        self.mask[:, place, 0] = np.arange(HORIZON) < length
        self.count += 1

    def sample(self):
        chosen = random.integers(min(self.count, MOST_ROLLOUTS), size=BATCH_SIZE)
        parts = (self.observations, self.actions, self.rewards, self.mask)
        return (torch.from_numpy(part[:, chosen]) for part in parts)


class Rollout:
    """One that is under way."""

    def __init__(self, observation) -> None:
        self.observations, self.actions, self.rewards = [observation], [], []
        self.returns = [0.0]


# -- collecting ------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def collect(num_rollouts: int, storage: Rollouts, *, is_random: bool = False) -> np.ndarray:
    """Play so many tasks, each environment at its own pace. Returns what every episode of every task brought."""
    state = torch.zeros(1, NUM_WORKERS, UNITS)
    action = torch.zeros(NUM_WORKERS, NUM_ACTIONS)
    reward = torch.zeros(NUM_WORKERS, 1)
    under_way: dict[int, Rollout] = {}
    num_begun, returns = 0, []
    while num_begun < num_rollouts or under_way:
        free = [index for index in range(NUM_WORKERS) if index not in under_way][: num_rollouts - num_begun]
        if free:  # these begin a task, and forget; the others are in the middle of theirs
            seeds = [int(seed) for seed in random.integers(2**31, size=len(free))]
            observations, _ = envs.reset(tasks=[None] * len(free), seeds=seeds, env_ids=free)
            for index, observation in zip(free, observations, strict=True):
                under_way[index] = Rollout(observation)
            state[:, free], action[free], reward[free] = 0.0, 0.0, 0.0
            num_begun += len(free)

        busy = sorted(under_way)
        seen = torch.from_numpy(np.stack([under_way[index].observations[-1] for index in busy]))
        if is_random:
            choices = torch.from_numpy(random.integers(NUM_ACTIONS, size=len(busy)))
        else:
            features, state[:, busy] = critics.memory(
                seen[None], action[None, busy], reward[None, busy], state[:, busy]
            )
            choices = torch.distributions.Categorical(logits=actor(features[0])).sample()
        action[busy] = functional.one_hot(choices, NUM_ACTIONS).float()

        observations, rewards, dones, infos = envs.step(choices.numpy(), env_ids=busy)
        reward[busy] = torch.as_tensor(rewards, dtype=torch.float32)[:, None]
        for row, index in enumerate(busy):
            rollout = under_way[index]
            rollout.observations.append(observations[row])
            rollout.actions.append(action[index].numpy().copy())
            rollout.rewards.append(rewards[row])
            rollout.returns[-1] += rewards[row]
            if dones[row]:
                del under_way[index]
                storage.add(rollout.observations, rollout.actions, rollout.rewards)
                returns.append(rollout.returns)
            elif infos[row]["done_mdp"]:
                rollout.returns.append(0.0)
    return np.array(returns)


# -- learning --------------------------------------------------------------------------------------------------------------


def update(storage: Rollouts) -> None:
    """One step of soft actor-critic on whole rollouts."""
    observations, actions, rewards, mask = storage.sample()
    before = torch.cat([torch.zeros_like(actions[:1]), actions]), torch.cat([torch.zeros_like(rewards[:1]), rewards])
    alpha = log_alpha.detach().exp()

    def mean(values):
        return (values * mask).sum() / mask.sum()

    features, _ = critics.memory(observations, *before)
    logs = torch.log_softmax(actor(features.detach()), dim=-1)  # the memory learns from the critics alone
    chances = logs.exp()

    with torch.no_grad():
        seen, _ = targets.memory(observations, *before)
        judged = torch.minimum(targets.first(seen), targets.second(seen))
        values = (chances * (judged - alpha * logs)).sum(-1, keepdim=True)
        wanted = rewards + GAMMA * values[1:]  # a task ends because time is up, which is no end of what could be had

    first, second = critics.first(features[:-1]), critics.second(features[:-1])
    errors = [((judged * actions).sum(-1, keepdim=True) - wanted).square() for judged in (first, second)]
    believed = torch.minimum(first, second).detach()
    gains = (chances[:-1] * (believed - alpha * logs[:-1])).sum(-1, keepdim=True)
    entropy = -(chances[:-1] * logs[:-1]).sum(-1, keepdim=True)

    optimiser.zero_grad()
    (mean(errors[0]) + mean(errors[1]) - mean(gains)).backward()
    optimiser.step()

    alpha_optimiser.zero_grad()
    (log_alpha * (mean(entropy).detach() - WANTED_ENTROPY)).backward()
    alpha_optimiser.step()

    with torch.no_grad():
        torch._foreach_lerp_(list(targets.parameters()), list(critics.parameters()), TAU)


storage = Rollouts()
collect(RANDOM_ROLLOUTS, storage, is_random=True)
begin = time.perf_counter()
for iteration in range(1, ITERATIONS + 1):
    returns = collect(ROLLOUTS_PER_ITERATION, storage)
    for _ in range(UPDATES_PER_ITERATION):
        update(storage)
    if iteration % max(1, ITERATIONS // 50) == 0:
        by_episode = ", ".join(f"{one:5.2f}" for one in returns.mean(axis=0))
        print(f"{storage.count:6,} tasks, {time.perf_counter() - begin:5.0f} s: episodes 1 to 4 brought {by_episode}")
envs.close()
