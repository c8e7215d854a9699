"""What the recipes for Harbor tasks share: the agent works as the user that its task names."""

from __future__ import annotations

from pydantic import JsonValue

from ...contracts.plan import ExecutionPlan
from ...contracts.request import RunRequest
from ...contracts.task import TaskSpec
from .fitting import Fitting, Wishes


class HarborUser(Fitting):
    """``[agent].user`` as the environment's parameter ``user``; the benchmark names the verifier's itself."""

    benchmark = "harbor"
    opening_parameter = ""
    """The provider's parameter for how long opening a sandbox may take, where it has one."""

    def wishes(self, request: RunRequest, plan: ExecutionPlan, task: TaskSpec) -> Wishes | None:
        """The user, and time for what ``build_timeout_sec`` allows for."""
        # Here and not above: every worker loads all recipes, and few run such tasks.
        from ..benchmarks.harbor.facts import HarborFacts

        del request
        params: dict[str, JsonValue] = {}
        user, seconds = HarborFacts.of(task).agent_user, plan.environment.setup.build_timeout_seconds
        if user is not None:
            params["user"] = user
        if self.opening_parameter and seconds is not None:
            params[self.opening_parameter] = seconds
        return Wishes(params=params) if params else None
