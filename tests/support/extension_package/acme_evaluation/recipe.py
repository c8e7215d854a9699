"""Large tables get more time."""

from agentcompass.contracts import ExecutionPlan, NoParams, Recipe, RunRequest, TaskSpec


class TimeForLargeTables(Recipe[NoParams]):
    """Sets the run budget of tasks in the category ``large`` to an hour."""

    id = "time_for_large_tables"
    description = "An hour for large tables"

    def matches(self, request: RunRequest, task: TaskSpec, plan: ExecutionPlan) -> bool:
        return request.benchmark.id == "csv_totals" and task.category == "large"

    def apply(self, plan: ExecutionPlan, request: RunRequest, task: TaskSpec) -> ExecutionPlan:
        benchmark_plan = plan.benchmark_plan.model_copy(update={"run_timeout_seconds": 3600.0})
        return plan.model_copy(update={"benchmark_plan": benchmark_plan})
