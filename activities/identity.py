"""What makes two results interchangeable: the content of a task and what its plan changes in it."""

from __future__ import annotations

import hashlib

import orjson

from ..contracts.plan import ExecutionPlan

_IDENTITY_FIELDS = {
    "environment": {"id", "setup", "resources"},
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
    kept = plan.model_dump(mode="json", include=_IDENTITY_FIELDS)  # type: ignore[arg-type]
    return hashlib.sha256(orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)).hexdigest()
