"""Files that a task asks for and its agent did not leave: a remark beside the score, which the verifier gives."""

from __future__ import annotations

import shlex

from ..contracts.environment import EnvironmentSession
from ..contracts.issues import IssueCode, IssuePhase, Severity
from ..contracts.result import RunResult
from ..contracts.task import PreparedTask
from .phase import PhaseScope

_SECONDS = 60.0
_NAMED = 5


async def warn_of_missing_files(
    scope: PhaseScope, env: EnvironmentSession, prepared: PreparedTask, result: RunResult
) -> None:
    """Report a WARNING that names what is missing. After a FATAL nobody asks any more."""
    if not prepared.output.files or result.has_fatal:
        return
    await scope.warn_on_failure(
        _warn(scope, env, prepared), IssuePhase.COLLECT, IssueCode.ARTIFACT_COLLECTION_FAILED
    )


async def _warn(scope: PhaseScope, env: EnvironmentSession, prepared: PreparedTask) -> None:
    paths = [file.path for file in prepared.output.files]
    # By number: a path may hold anything.
    names = " ".join(shlex.quote(f"./{path}" if path.startswith("-") else path) for path in paths)
    script = f'n=0; for path in {names}; do [ -e "$path" ] || echo "$n"; n=$((n+1)); done'
    ended = await env.exec(script, cwd=prepared.input.workspace, timeout_seconds=_SECONDS)
    if not ended.ok:
        raise RuntimeError(f"whether the agent left its files cannot be told (status {ended.returncode})")
    missing = [paths[int(line)] for line in ended.stdout.text.split() if line.isdecimal()]
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        scope.context.report_issue(
            Severity.WARNING,
            IssuePhase.COLLECT,
            IssueCode.ARTIFACT_MISSING,
            f"the agent did not leave {', '.join(map(repr, missing[:_NAMED]))}{more}",
        )
