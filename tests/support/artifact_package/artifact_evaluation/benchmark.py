"""A task is solved when the file ``answer.txt`` of the delivered folder ``out`` holds ``right``."""

from pathlib import Path

from pydantic import Field

from agentcompass.contracts import (
    ArtifactCommand,
    ArtifactSpec,
    AttemptContext,
    Benchmark,
    Contract,
    EnvironmentSession,
    EvaluationMode,
    ExecutionPlan,
    IssueCode,
    IssuePhase,
    PreparedTask,
    RunRequest,
    RunResult,
    StageFailure,
    TaskSpec,
)

OUT = ArtifactSpec(source="{workdir}/out", exclude=["*.tmp"])


def first_call(marker: Path) -> bool:
    """Whether nobody has asked before."""
    if marker.exists():
        return False
    marker.touch()
    return True


class DeliveriesParams(Contract):
    """The only task: what the agent does, and what is declared."""

    script: str
    """The agent, as a shell script in the work directory."""
    mode: EvaluationMode = EvaluationMode.FRESH
    artifacts: list[ArtifactSpec] = Field(default_factory=lambda: [OUT])
    artifact_collect: list[ArtifactCommand] = Field(default_factory=list)
    judge_fails_until: str = ""
    """A file that does not exist: the first judgement makes it and fails."""
    scribbles: bool = False
    """Whether the judge on the worker changes the files that it is given, after it has looked at them."""
    forge: bool = False
    """Whether the benchmark that looks changes the collected file afterwards, as nobody should."""


class Deliveries(Benchmark[DeliveriesParams]):
    """Judges in the environment, or on the worker when there is none."""

    id = "deliveries"
    description = "Files that an agent leaves"
    Params = DeliveriesParams

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        return [
            TaskSpec(
                task_id="one",
                question=self.params.script,
                evaluation_environment_mode=self.params.mode,
                artifacts=self.params.artifacts,
                artifact_collect=self.params.artifact_collect,
            )
        ]

    async def evaluate(
        self,
        task: TaskSpec,
        prepared: PreparedTask,
        result: RunResult,
        request: RunRequest,
        plan: ExecutionPlan,
        env: EnvironmentSession | None,
        context: AttemptContext,
    ) -> RunResult:
        fails = self.params.judge_fails_until and first_call(Path(self.params.judge_fails_until))
        if env is None:
            found = context.artifact_path("out")
            answer = "" if found is None else (found / "answer.txt").read_text()
            listing = [] if found is None else sorted(path.name for path in found.iterdir())
            if found is not None and self.params.scribbles:
                (found / "answer.txt").write_text("scribbled")
                (found / "scribble").touch()
        else:
            answer = (await env.exec("cat out/answer.txt")).stdout.text
            listing = (await env.exec("LC_ALL=C ls out")).stdout.text.split()
        if fails:
            raise StageFailure.fatal(IssuePhase.EVALUATE, IssueCode.JUDGE_FAILED, "the judge is away")
        seen = {"answer": answer, "listing": listing}
        metrics = {"correct": answer.strip() == "right"}
        return result.model_copy(update={"metrics": metrics, "extra": {**result.extra, **seen}})


class ReplacingDeliveries(Deliveries):
    """Returns artifacts of its own, as an author does who thinks that there are no others."""

    id = "replacing_deliveries"

    async def collect_artifacts(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        result: RunResult,
        request: RunRequest,
        plan: ExecutionPlan,
        context: AttemptContext,
    ) -> RunResult:
        return result.model_copy(update={"artifacts": {"seen": True}})

    async def evaluate(
        self,
        task: TaskSpec,
        prepared: PreparedTask,
        result: RunResult,
        request: RunRequest,
        plan: ExecutionPlan,
        env: EnvironmentSession | None,
        context: AttemptContext,
    ) -> RunResult:
        scored = await super().evaluate(task, prepared, result, request, plan, env, context)
        return scored.model_copy(update={"artifacts": {"judged": result.artifacts.get("seen")}})


class LookedAtDeliveries(Deliveries):
    """Looks at the environment itself after the declared paths were collected."""

    id = "looked_at_deliveries"

    async def collect_artifacts(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        result: RunResult,
        request: RunRequest,
        plan: ExecutionPlan,
        context: AttemptContext,
    ) -> RunResult:
        found = context.artifact_path("out")
        if found is not None and self.params.forge:
            (found / "answer.txt").write_text("forged")
        extra = {"collected_before": found is not None, "made": (await env.exec("cat made")).stdout.text}
        return result.model_copy(update={"extra": extra})
