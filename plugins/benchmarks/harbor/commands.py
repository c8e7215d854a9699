"""Commands of our own inside a task's environment: small, checked, and told when they fail."""

from __future__ import annotations

import asyncio
import shlex

from ....contracts.context import AttemptContext
from ....contracts.environment import EnvironmentSession
from ....contracts.errors import StageFailure
from ....contracts.issues import IssueCode, IssuePhase
from .config import HealthcheckTable
from .paths import SandboxPaths

_SECONDS = 120.0


async def require(
    env: EnvironmentSession, script: str, *, user: str | None, phase: IssuePhase, what: str
) -> None:
    """Run a shell script. Raises ``StageFailure`` (``environment_failed``) when it does not succeed."""
    ended = await env.exec(script, cwd="/", user=user, timeout_seconds=_SECONDS)
    if not ended.ok:
        reason = (ended.stderr.text or ended.stdout.text).strip()[-300:]
        status = "timed out" if ended.timed_out else f"status {ended.returncode}"
        message = f"{what} failed in the environment ({status}): {reason or 'no output'}"
        raise StageFailure.fatal(phase, IssueCode.ENVIRONMENT_FAILED, message)


async def make_log_folders(env: EnvironmentSession, paths: SandboxPaths) -> None:
    """Where agents, verifiers and whoever else may write. Raises ``StageFailure``."""
    logs = [shlex.quote(f"{paths.logs}/{name}") for name in ("agent", "verifier", "artifacts")]
    await require(
        env,
        f"mkdir -p {' '.join(logs)} && chmod 777 {' '.join(logs)}",
        user=paths.root,
        phase=IssuePhase.SETUP,
        what=f"making {paths.logs}",
    )


async def wait_until_healthy(
    env: EnvironmentSession, check: HealthcheckTable, context: AttemptContext
) -> None:
    """Until the command succeeds. Raises ``StageFailure`` (``setup_failed``) after ``retries`` failures.

    Failures within ``start_period_sec`` are not counted.
    """
    loop = asyncio.get_running_loop()
    began, failures, output = loop.time(), 0, ""
    while failures < check.retries:
        context.progress("waiting for the task's health check")
        ended = await env.exec(check.command, timeout_seconds=check.timeout_sec)
        if ended.ok:
            return
        output = (ended.stderr.text or ended.stdout.text).strip()[-300:]
        starting = loop.time() - began < check.start_period_sec
        failures += 0 if starting else 1
        if failures < check.retries:
            await asyncio.sleep(check.start_interval_sec if starting else check.interval_sec)
    message = f"the task's health check failed {failures} times: {output or 'no output'}"
    raise StageFailure.fatal(IssuePhase.SETUP, IssueCode.SETUP_FAILED, message)
