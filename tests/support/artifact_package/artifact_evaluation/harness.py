"""An agent that is the task's question, executed by a shell."""

from agentcompass.contracts import (
    AttemptContext,
    EnvironmentSession,
    Harness,
    HarnessPlan,
    NoParams,
    PreparedTask,
    RunRequest,
    RunResult,
)


class Script(Harness[NoParams, EnvironmentSession]):
    """Runs the question in the work directory."""

    id = "script"
    description = "Executes the question"
    uses_model = False

    async def start_session(
        self, env: EnvironmentSession, request: RunRequest, plan: HarnessPlan, context: AttemptContext
    ) -> EnvironmentSession:
        return env

    async def execute_task(
        self,
        session: EnvironmentSession,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> None:
        result = await session.exec(prepared.input.prompt)
        assert result.ok, result.stderr.text

    async def collect_result(
        self,
        session: EnvironmentSession,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> RunResult:
        return RunResult(task_id=prepared.task_id, final_answer="delivered")
