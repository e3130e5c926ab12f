"""Language models as players: which text worlds there are, what a model's text means in them, and how groups share chance.

::

    text of a model ── read_answer ──▶ what stands in its last <action> or <answer> ── Grammar ──▶ an action, or None
    group, member   ── member_options ──▶ task seed and noise seed ──▶ reset(options=…)

    EnvStateManager      several actions in a turn, trajectories of all members with metrics
    make_environments    ──▶ EnvironmentManagerBase (prompts, history) ──▶ MultiProcessEnvironmentContainer (an action each)
                both ──▶ Worlds ──▶ EnvList: in worker processes or here, restored, with a Status where that fails
"""

from __future__ import annotations

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
from shoal.llm.projection import Projection, Reading, create_projection_function
from shoal.llm.registry import REGISTERED_ENV_CONFIGS, REGISTERED_ENVS, UnknownEnvType
from shoal.llm.status import Status
from shoal.llm.verdicts import GraderStats, Verdict

__all__ = [
    "REGISTERED_ENVS",
    "REGISTERED_ENV_CONFIGS",
    "BanditEnvironmentManager",
    "CountdownEnvironmentManager",
    "EnvStateManager",
    "EnvironmentManagerBase",
    "FrozenLakeEnvironmentManager",
    "Grader",
    "GraderStats",
    "GroupTasks",
    "MetaMathQAEnvironmentManager",
    "MultiProcessEnvironmentContainer",
    "Projection",
    "Reading",
    "SokobanEnvironmentManager",
    "Status",
    "UnknownEnvType",
    "Verdict",
    "create_projection_function",
    "create_single_environment_for_testing",
    "get_environment_requirements",
    "get_supported_environment_types",
    "make_environments",
    "member_options",
    "read_answer",
    "validate_environment_config",
]
