"""Language models as players: which text worlds there are, what a model's text means in them, and how groups share chance.

::

    text of a model ── read_answer ──▶ what stands in its last <action> or <answer> ── Grammar ──▶ an action, or None
    group, member   ── member_options ──▶ task seed and noise seed ──▶ reset(options=…)
"""

from __future__ import annotations

from shoal.llm.answers import read_answer
from shoal.llm.es_manager import EnvStateManager
from shoal.llm.noise_sharing import GroupTasks, member_options
from shoal.llm.policies import (
    BatchPolicy,
    ConcurrentPolicy,
    FunctionPolicy,
    Generation,
    OpenAIPolicy,
    Play,
    Policy,
    PolicyError,
    RecordedPolicy,
    RecordingPolicy,
    Request,
    ScriptedPolicy,
    SolverPolicy,
    TransformersPolicy,
    as_policy,
    sampling_seed,
)
from shoal.llm.projection import Projection, Reading, create_projection_function
from shoal.llm.registry import REGISTERED_ENV_CONFIGS, REGISTERED_ENVS, UnknownEnvType
from shoal.llm.status import Status

__all__ = [
    "REGISTERED_ENVS",
    "REGISTERED_ENV_CONFIGS",
    "BatchPolicy",
    "ConcurrentPolicy",
    "EnvStateManager",
    "FunctionPolicy",
    "Generation",
    "GroupTasks",
    "OpenAIPolicy",
    "Play",
    "Policy",
    "PolicyError",
    "Projection",
    "Reading",
    "RecordedPolicy",
    "RecordingPolicy",
    "Request",
    "ScriptedPolicy",
    "SolverPolicy",
    "Status",
    "TransformersPolicy",
    "UnknownEnvType",
    "as_policy",
    "create_projection_function",
    "member_options",
    "read_answer",
    "sampling_seed",
]
