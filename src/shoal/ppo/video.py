"""A film of what a policy does."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from shoal.envs.naming import find
from shoal.ppo.config import PPOConfig
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array
from shoal.vector.making import factories_of

USUAL_FPS = 30


def check_that_it_can_be_filmed(config: PPOConfig) -> None:
    """Say before the training, not after it, what is missing."""
    if importlib.util.find_spec("imageio_ffmpeg") is None:
        raise ConfigurationError("--record-video needs imageio-ffmpeg: pip install 'shoal[video]'")
    env = env_with_pictures(config)
    try:
        env.reset(seed=0)
        picture_of(env)
    finally:
        env.close()


def env_with_pictures(config: PPOConfig) -> gymnasium.Env[Any, Any]:
    """A single environment of the run's kind that renders pictures."""
    try:
        (factory,), _ = factories_of(find(config.env), 1, {**config.env_kwargs, "render_mode": "rgb_array"})
        return factory()
    except (TypeError, ValueError, gymnasium.error.Error) as error:
        raise ConfigurationError(
            f"--record-video needs pictures, and {config.env} cannot be made with render_mode='rgb_array': {error}"
        ) from error


def picture_of(env: gymnasium.Env[Any, Any]) -> Array:
    """What the environment looks like."""
    try:
        picture = env.render()
    except Exception as error:
        raise ConfigurationError(
            f"--record-video needs pictures, and render() of {env} raised {type(error).__name__}: {error}"
        ) from error
    if not isinstance(picture, np.ndarray) or picture.ndim != 3 or picture.shape[2] != 3:
        what = f"an array of shape {picture.shape}" if isinstance(picture, np.ndarray) else type(picture).__name__
        raise ConfigurationError(
            f"--record-video needs pictures of shape (height, width, 3), and render() of {env} returned {what}"
        )
    return np.ascontiguousarray(picture, np.uint8)


@contextmanager
def filming(env: gymnasium.Env[Any, Any], path: Path) -> Iterator[Callable[[], None]]:
    """Gives a function to call at every step. The film is there when it is complete, and not before."""
    import imageio_ffmpeg

    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}")
    writer: Any = None
    height = width = 0

    def take_picture() -> None:
        nonlocal writer, height, width
        picture = picture_of(env)
        if writer is not None and picture.shape[:2] != (height, width):
            raise ConfigurationError(
                f"--record-video needs pictures of one size, and render() of {env} returned one of "
                f"{picture.shape[0]} x {picture.shape[1]} after one of {height} x {width}"
            )
        if writer is None:
            height, width = picture.shape[:2]
            fps = env.metadata.get("render_fps") or USUAL_FPS
            # Players want an even number of rows and columns.
            writer = imageio_ffmpeg.write_frames(
                str(unfinished), (width, height), fps=fps, macro_block_size=2, output_params=["-f", "mp4"]
            )
            writer.send(None)
        writer.send(picture)

    try:
        yield take_picture
        if writer is not None:
            writer.close()
            writer = None
            os.replace(unfinished, path)
    finally:
        if writer is not None:
            writer.close()
        unfinished.unlink(missing_ok=True)
