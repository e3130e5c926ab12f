"""Under which ids the worlds of meta-RL are registered."""

from __future__ import annotations

_ENTRY_POINTS = {
    "PointRobot-v0": ("point_robot:PointRobotEnv", 60),
    "PointRobotSparse-v0": ("point_robot:PointRobotSparseEnv", 60),
    "Wind-v0": ("wind:WindEnv", 75),
    "GridNavi-v0": ("grid_navi:GridNaviEnv", 15),
    "HalfCheetahVel-v0": ("half_cheetah:HalfCheetahVelEnv", 200),
    "CheetahDir-v0": ("half_cheetah:CheetahDirEnv", 200),
    "AntDir-v0": ("ant:AntDirEnv", 200),
}
"""Where the environment is, and how long an episode is."""

META_WORLDS: dict[str, dict[str, object]] = {
    name: {
        "entry_point": f"shoal.envs.meta.{place}",
        "max_episode_steps": steps,
        # What Gymnasium would check in every step is tested, and the check stumbles over a first reset that failed.
        "disable_env_checker": True,
    }
    for name, (place, steps) in _ENTRY_POINTS.items()
}
"""By the names that they have in the literature. With ``shoal/`` before them they are registered by ``import shoal``, and
under the bare names by ``import shoal.meta``, unless somebody else has registered these."""
