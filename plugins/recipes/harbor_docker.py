"""Harbor tasks in containers: the agent works as the user that its task names."""

from __future__ import annotations

from ...contracts.component import NoParams
from ...contracts.plan import ExecutionPlan
from ...contracts.recipe import Recipe
from ...contracts.request import RunRequest
from ...contracts.task import TaskSpec
from ..benchmarks.harbor.facts import HarborFacts


class HarborDocker(Recipe[NoParams]):
    """``[agent].user`` as the user of the container's commands; the benchmark names the verifier's itself."""

    id = "harbor_docker"
    description = "Harbor tasks on docker: the agent works as the user of its task"

    def matches(self, request: RunRequest, task: TaskSpec, plan: ExecutionPlan) -> bool:
        ours = request.benchmark.id == "harbor" and plan.environment.id == "docker"
        return ours and HarborFacts.of(task).agent_user is not None

    def apply(self, plan: ExecutionPlan, request: RunRequest, task: TaskSpec) -> ExecutionPlan:
        del request
        environment = plan.environment
        params = {**environment.params, "user": HarborFacts.of(task).agent_user}
        return plan.model_copy(update={"environment": environment.model_copy(update={"params": params})})
