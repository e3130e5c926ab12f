"""Language models as players: which text worlds there are, what a model's text means in them, and how groups share chance.

::

    text of a model ── read_answer ──▶ what stands in its last <action> or <answer> ── Grammar ──▶ an action, or None
    group, member   ── member_options ──▶ task seed and noise seed ──▶ reset(options=…)

    EnvStateManager      several actions in a turn, trajectories of all members with metrics
    make_environments    ──▶ EnvironmentManagerBase (prompts, history) ──▶ MultiProcessEnvironmentContainer (an action each)
                both ──▶ Worlds ──▶ EnvList: in worker processes or here, restored, with a Status where that fails
"""

from __future__ import annotations

from shoal.llm.agent_proxy import LLMAgentProxy
from shoal.llm.answers import read_answer
from shoal.llm.container import MultiProcessEnvironmentContainer
from shoal.llm.environment_manager import EnvironmentManagerBase
from shoal.llm.environment_managers import (
    BanditEnvironmentManager,
    CountdownEnvironmentManager,
    FrozenLakeEnvironmentManager,
    MetaMathQAEnvironmentManager,
    SokobanEnvironmentManager,
)
from shoal.llm.es_manager import EnvStateManager
from shoal.llm.factory import (
    create_single_environment_for_testing,
    get_environment_requirements,
    get_supported_environment_types,
    make_environments,
    validate_environment_config,
)
from shoal.llm.grader import Grader
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
from shoal.llm.record_files import append_records, read_records, write_parquet
from shoal.llm.records import TrajectoryRecord, TurnRecord
from shoal.llm.registry import REGISTERED_ENV_CONFIGS, REGISTERED_ENVS, UnknownEnvType
from shoal.llm.rollout import Watcher
from shoal.llm.rollout_batch import RolloutBatch
from shoal.llm.rollout_settings import RolloutSettings
from shoal.llm.status import Status
from shoal.llm.trajectory_collector import TrajectoryCollector
from shoal.llm.verdicts import GraderStats, Verdict
from shoal.llm.verifying import Verification, verify

__all__ = [
    "REGISTERED_ENVS",
    "REGISTERED_ENV_CONFIGS",
    "BanditEnvironmentManager",
    "BatchPolicy",
    "ConcurrentPolicy",
    "CountdownEnvironmentManager",
    "EnvStateManager",
    "EnvironmentManagerBase",
    "FrozenLakeEnvironmentManager",
    "FunctionPolicy",
    "Generation",
    "Grader",
    "GraderStats",
    "GroupTasks",
    "LLMAgentProxy",
    "MetaMathQAEnvironmentManager",
    "MultiProcessEnvironmentContainer",
    "OpenAIPolicy",
    "Play",
    "Policy",
    "PolicyError",
    "Projection",
    "Reading",
    "RecordedPolicy",
    "RecordingPolicy",
    "Request",
    "RolloutBatch",
    "RolloutSettings",
    "ScriptedPolicy",
    "SokobanEnvironmentManager",
    "SolverPolicy",
    "Status",
    "TrajectoryCollector",
    "TrajectoryRecord",
    "TransformersPolicy",
    "TurnRecord",
    "UnknownEnvType",
    "Verdict",
    "Verification",
    "Watcher",
    "append_records",
    "as_policy",
    "create_projection_function",
    "create_single_environment_for_testing",
    "get_environment_requirements",
    "get_supported_environment_types",
    "make_environments",
    "member_options",
    "read_answer",
    "read_records",
    "sampling_seed",
    "validate_environment_config",
    "verify",
    "write_parquet",
]
