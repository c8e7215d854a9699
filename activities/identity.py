"""What makes two results interchangeable: the content of a task and what its plan changes in it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ..contracts.plan import ExecutionPlan
from ..contracts.records import Identity
from ..contracts.request import EvaluationMode

_SETUP = {"image", "workdir"}
_IDENTITY_FIELDS: dict[str, Any] = {
    "environment": {"id": True, "setup": _SETUP, "resources": True},
    "evaluation_environment_mode": True,
    "run_network_policy": True,
    "evaluation_network_policy": True,
    "benchmark_plan": {"settings"},
    "harness_plan": {"settings"},
}
"""Concurrency, retry budgets, time limits, addresses and paths are not identity: a result does not
become another one because it was allowed to take longer."""


def plan_digest(plan: ExecutionPlan) -> str:
    """sha256 (hex) over the part of the plan that changes what is asked of the agent."""
    return _digest(plan, _IDENTITY_FIELDS)


def attempt_identity(task_digest: str, plan: ExecutionPlan, settings_digest: str) -> Identity:
    """The identity of a finished attempt."""
    return Identity(task_digest=task_digest, plan_digest=plan_digest(plan), settings_digest=settings_digest)


def unscored_identity(task_digest: str, plan: ExecutionPlan, settings_digest: str = "") -> Identity:
    """The identity of an execution that waits for its evaluation.

    A fresh verifier may get other resources than the agent had: they are no part of it then.
    """
    fields = _IDENTITY_FIELDS
    if plan.evaluation_environment_mode is EvaluationMode.FRESH:
        fields = {**fields, "environment": {"id": True, "setup": _SETUP}}
    digest = _digest(plan, fields)
    return Identity(task_digest=task_digest, plan_digest=digest, settings_digest=settings_digest)


def _digest(plan: ExecutionPlan, fields: dict[str, Any]) -> str:
    kept = plan.model_dump(mode="json", include=fields)
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
