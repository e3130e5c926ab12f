"""Under which ids the worlds of meta-RL are registered."""

from __future__ import annotations

META_WORLDS: dict[str, dict[str, object]] = {
    "PointRobot-v0": {"entry_point": "shoal.envs.meta.point_robot:PointRobotEnv", "max_episode_steps": 60},
    "PointRobotSparse-v0": {"entry_point": "shoal.envs.meta.point_robot:PointRobotSparseEnv", "max_episode_steps": 60},
    "Wind-v0": {"entry_point": "shoal.envs.meta.wind:WindEnv", "max_episode_steps": 75},
    "GridNavi-v0": {"entry_point": "shoal.envs.meta.grid_navi:GridNaviEnv", "max_episode_steps": 15},
    "HalfCheetahVel-v0": {"entry_point": "shoal.envs.meta.half_cheetah:HalfCheetahVelEnv", "max_episode_steps": 200},
    "CheetahDir-v0": {"entry_point": "shoal.envs.meta.half_cheetah:CheetahDirEnv", "max_episode_steps": 200},
    "AntDir-v0": {"entry_point": "shoal.envs.meta.ant:AntDirEnv", "max_episode_steps": 200},
}
"""By the names that they have in the literature. With ``shoal/`` before them they are registered by ``import shoal``, and
under the bare names by ``import shoal.meta``, unless somebody else has registered these."""
