"""The repository of a task inside its environment: its start, the agent's patch, and applying it elsewhere."""

from __future__ import annotations

import shlex

from ....contracts.environment import EnvironmentSession
from ....contracts.errors import StageFailure
from ....contracts.issues import IssueCode, IssuePhase

LARGEST_PATCH_BYTES = 32 * 1024 * 1024
_BASE = "refs/agentcompass/base"
_SECONDS = 600.0
_GIT = "git -c safe.directory='*' -c core.fileMode=false -c core.hooksPath=/dev/null"
_APPLY = (
    f"{_GIT} apply --verbose {{patch}}",
    f"{_GIT} apply --verbose --3way {{patch}}",
    f"{_GIT} apply --verbose --reject {{patch}}",
    "patch --batch --forward --fuzz=5 -p1 -i {patch}",
)
"""As the official evaluation does, one after the other."""


async def mark_start(env: EnvironmentSession, folder: str) -> None:
    """Remember where the agent starts. Raises ``StageFailure`` when there is no repository."""
    await _require(
        env, f"{_GIT} update-ref {_BASE} HEAD", folder, IssuePhase.SETUP, f"the repository in {folder}"
    )


async def patch_of(env: EnvironmentSession, folder: str) -> str:
    """Everything that differs from the start, committed or not, but for ignored files.

    Raises ``StageFailure`` (``artifact_collection_failed``) when git fails or the patch is too large.
    """
    path = f"{folder.rstrip('/')}/.git/agentcompass.patch"
    script = f"{_GIT} add -A . && {_GIT} diff --cached --no-color --no-ext-diff --binary {_BASE} > {shlex.quote(path)}"
    await _require(env, script, folder, IssuePhase.COLLECT, "taking the agent's patch")
    try:
        data = await env.read(path, max_bytes=LARGEST_PATCH_BYTES)
    except ValueError as error:
        message = f"the agent's patch is larger than {LARGEST_PATCH_BYTES} bytes"
        raise StageFailure.error(IssuePhase.COLLECT, IssueCode.ARTIFACT_COLLECTION_FAILED, message) from error
    return data.decode("utf-8", "surrogateescape")


async def apply_patch(env: EnvironmentSession, folder: str, patch: str) -> str:
    """Apply a patch in a fresh repository; why it does not apply, or an empty string."""
    path = (
        "/tmp/agentcompass.patch" if folder.startswith("/testbed") else f"{env.workdir}/.agentcompass.patch"
    )
    await env.write(path, patch.encode("utf-8", "surrogateescape"))
    quoted = shlex.quote(path)
    output = ""
    for number, command in enumerate(_APPLY):
        if number:  # a failed one may leave a part behind
            await env.exec(f"{_GIT} checkout -- . ; {_GIT} clean -fdq", cwd=folder, timeout_seconds=_SECONDS)
        ended = await env.exec(command.format(patch=quoted), cwd=folder, timeout_seconds=_SECONDS)
        if ended.ok:
            return ""
        output = output or (ended.stderr.text or ended.stdout.text).strip()[-1000:]
    applied = await env.exec(f"{_GIT} apply --check --reverse {quoted}", cwd=folder, timeout_seconds=_SECONDS)
    return "" if applied.ok else f"the patch does not apply: {output}"


async def _require(env: EnvironmentSession, script: str, folder: str, phase: IssuePhase, what: str) -> None:
    try:
        ended = await env.exec(script, cwd=folder, timeout_seconds=_SECONDS)
    except FileNotFoundError as error:
        raise StageFailure.fatal(
            phase, IssueCode.ENVIRONMENT_FAILED, f"{what}: {folder} is not there"
        ) from error
    if not ended.ok:
        reason = (ended.stderr.text or ended.stdout.text).strip()[-300:]
        code = (
            IssueCode.ARTIFACT_COLLECTION_FAILED
            if phase is IssuePhase.COLLECT
            else IssueCode.ENVIRONMENT_FAILED
        )
        raise StageFailure.fatal(phase, code, f"{what} failed (status {ended.returncode}): {reason}")
