"""Tasks of several steps: what a step begins with, when it is the last, and what all of them are worth."""

from __future__ import annotations

import asyncio
import math
import shlex

from pydantic import JsonValue

from ....contracts.context import AttemptContext
from ....contracts.environment import EnvironmentSession
from ....contracts.errors import StageFailure
from ....contracts.issues import IssueCode, IssuePhase
from ....contracts.result import RunResult
from ....contracts.task import TaskSpec
from .commands import make_log_folders, require, wait_until_healthy
from .facts import HarborFacts, StepFacts
from .folder import TaskFolder
from .paths import SandboxPaths
from .verifier import upload_part

_SHOWN_BYTES = 2000
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
_SETUP = """\
cd {folder} || exit
if command -v bash >/dev/null 2>&1; then exec bash ./setup.sh 2>&1; fi
exec sh ./setup.sh 2>&1
"""


async def begin_step(
    facts: HarborFacts,
    step: StepFacts,
    folder: TaskFolder,
    env: EnvironmentSession,
    paths: SandboxPaths,
    context: AttemptContext,
) -> None:
    """Remove what graded the step before, put the step's files into the work directory, set up, wait.

    ``setup.sh`` is a process of its own with an id: a worker that takes over follows the one that runs, and
    executes none twice. Raises ``StageFailure``.
    """
    process_id = f"harbor-setup-{context.label}"
    if await env.process_status(process_id) is None:
        if not step.first:
            await _forget_grading(env, paths)
        if step.workdir is not None:
            await upload_part(folder, step.workdir, env.workdir, env, paths, IssuePhase.SETUP)
        if step.setup_script:
            context.progress("running the step's setup.sh")
            script = _SETUP.format(folder=shlex.quote(env.workdir))
            await env.start_process(process_id, ["sh", "-c", script], user=facts.agent_user)
    if step.setup_script:
        await _await_setup(env, process_id)
    if step.healthcheck is not None:
        await wait_until_healthy(env, step.healthcheck, context)


async def _forget_grading(env: EnvironmentSession, paths: SandboxPaths) -> None:
    """Tests, solution and logs of the step before are not for the agent of this one."""
    gone = [paths.tests, paths.solution, f"{paths.logs}/verifier", f"{paths.logs}/agent"]
    await require(
        env,
        f"rm -rf {' '.join(map(shlex.quote, gone))}",
        user=paths.root,
        phase=IssuePhase.SETUP,
        what="removing what the step before left",
    )
    await make_log_folders(env, paths)


async def _await_setup(env: EnvironmentSession, process_id: str) -> None:
    pause = _FIRST_PAUSE_SECONDS
    status = await env.process_status(process_id)
    while status is not None and status.running:
        await asyncio.sleep(pause)
        pause = min(_LONGEST_PAUSE_SECONDS, pause * 1.5)
        status = await env.process_status(process_id)
    if status is not None and status.returncode == 0:
        return
    output = ""
    if status is not None:
        start = max(0, status.stdout_bytes - _SHOWN_BYTES)
        raw = await env.read_process_output(process_id, "stdout", start, _SHOWN_BYTES)
        output = raw.decode("utf-8", "replace").strip()[-500:]
    code = status.returncode if status is not None else None
    message = f"the step's setup.sh ended with status {code}: {output or 'no output'}"
    raise StageFailure.fatal(IssuePhase.SETUP, IssueCode.SETUP_FAILED, message)


def missed(facts: HarborFacts, scored: RunResult) -> str:
    """Which threshold a step missed; empty when none. A reward that is not there misses every one."""
    told = scored.meta.benchmark.get("rewards")
    found = dict(told) if isinstance(told, dict) else {}
    if found:  # the only reward of another name stands for it
        found.setdefault("reward", scored.metrics.get("reward"))
    for name, least in (facts.step.thresholds if facts.step else {}).items():
        value = found.get(name)
        number = float(value) if isinstance(value, int | float) else -math.inf
        if number < least:
            return f"{name} is {number:g}, below min_reward {least:g}"
    return ""


def combined(task: TaskSpec, scored: list[RunResult], result: RunResult, stopped: str) -> RunResult:
    """The result of the whole, with its reward and how that came about.

    Harbor's own number is told beside: it divides by the steps that were executed, so that stopping early raises it.
    """
    facts = HarborFacts.of(task)
    rewards = [step.metrics.get("reward") for step in scored]
    numbers = [float(value) for value in rewards if isinstance(value, int | float)]
    if len(numbers) < len(scored):
        return result  # a step without a score: none for the task
    if facts.reward_strategy == "final":
        reward, theirs = numbers[-1] if len(scored) == len(task.steps) else 0.0, numbers[-1]
    else:
        reward, theirs = sum(numbers) / len(task.steps), sum(numbers) / len(numbers)
    told: dict[str, JsonValue] = {
        "reward_strategy": facts.reward_strategy,
        "steps_declared": len(task.steps),
        "steps_executed": len(scored),
        "harbor_reward": theirs,
    }
    if stopped:
        told["stopped"] = f"after step {task.steps[len(scored) - 1].task_id}: {stopped}"
    meta = result.meta.model_copy(update={"benchmark": {**result.meta.benchmark, **told}})
    metrics: dict[str, JsonValue] = {"reward": reward, "correct": reward >= 1.0}
    return result.model_copy(update={"metrics": metrics, "meta": meta})
