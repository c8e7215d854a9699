"""What the recipes for Harbor tasks share: the agent works as the user that its task names."""

from __future__ import annotations

from typing import ClassVar

from ...contracts.component import NoParams
from ...contracts.plan import ExecutionPlan
from ...contracts.recipe import Recipe
from ...contracts.request import RunRequest
from ...contracts.task import TaskSpec
from ..benchmarks.harbor.facts import HarborFacts


class HarborUser(Recipe[NoParams]):
    """``[agent].user`` as the environment's parameter ``user``; the benchmark names the verifier's itself."""

    environment: ClassVar[str]
    """The environment whose commands run as its parameter ``user`` says."""

    def matches(self, request: RunRequest, task: TaskSpec, plan: ExecutionPlan) -> bool:
        """Harbor tasks with a user, in this environment."""
        ours = request.benchmark.id == "harbor" and plan.environment.id == self.environment
        return ours and HarborFacts.of(task).agent_user is not None

    def apply(self, plan: ExecutionPlan, request: RunRequest, task: TaskSpec) -> ExecutionPlan:
        """The same plan with the user."""
        del request
        environment = plan.environment
        params = {**environment.params, "user": HarborFacts.of(task).agent_user}
        return plan.model_copy(update={"environment": environment.model_copy(update={"params": params})})
