"""Policies: who says what is done. A model on a server or here, a script, a solver, or a recording."""

from __future__ import annotations

from shoal.llm.policies.known import ScriptedPolicy, SolverPolicy
from shoal.llm.policies.openai_server import OpenAIPolicy
from shoal.llm.policies.policy import BatchPolicy, ConcurrentPolicy, FunctionPolicy, Policy, PolicyError, as_policy
from shoal.llm.policies.recorded import RecordedPolicy, RecordingPolicy
from shoal.llm.policies.requests import Generation, Message, Play, Request, sampling_seed
from shoal.llm.policies.transformers_model import TransformersPolicy

__all__ = [
    "BatchPolicy",
    "ConcurrentPolicy",
    "FunctionPolicy",
    "Generation",
    "Message",
    "OpenAIPolicy",
    "Play",
    "Policy",
    "PolicyError",
    "RecordedPolicy",
    "RecordingPolicy",
    "Request",
    "ScriptedPolicy",
    "SolverPolicy",
    "TransformersPolicy",
    "as_policy",
    "sampling_seed",
]
