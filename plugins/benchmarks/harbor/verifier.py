"""Grading: the tests go into the environment when the agent is gone, and the reward is read once."""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from ....contracts.base import Contract
from ....contracts.environment import EnvironmentSession
from ....contracts.errors import StageFailure
from ....contracts.issues import IssueCode, IssuePhase
from .commands import require
from .facts import FolderPart, HarborFacts
from .folder import InvalidTaskError, TaskFolder
from .paths import SandboxPaths
from .rewards import LARGEST_REWARD_BYTES, Rewards, UnreadableRewardError, parse_json, parse_text
from .staging import stage

_SHOWN_BYTES = 4000
_KILLED = (137, 143)
"""What a shell says of a command that SIGKILL or SIGTERM has ended."""


class Grading(Contract):
    """How the verifier ended; ``rewards`` is ``None`` when it left no readable one, and ``problem`` says why."""

    rewards: Rewards | None = None
    problem: str = ""
    returncode: int | None
    seconds: float
    output: str = ""

    def facts(self) -> dict[str, JsonValue]:
        """For people, in the result."""
        return {
            "rewards": dict(self.rewards.all) if self.rewards else {},
            "verifier_exit_status": self.returncode,
            "verifier_seconds": round(self.seconds, 3),
            "verifier_output": self.output,
        }


async def upload_tests(
    folder: TaskFolder, facts: HarborFacts, env: EnvironmentSession, paths: SandboxPaths
) -> None:
    """Put the tests into the environment, instead of whatever is at their place. Raises ``StageFailure``."""
    await _replace(folder, facts.tests, paths.tests, "test.sh", env, paths, IssuePhase.EVALUATE)


async def upload_solution(
    folder: TaskFolder, solution: FolderPart, env: EnvironmentSession, paths: SandboxPaths
) -> None:
    """The same with the reference solution, for the oracle."""
    await _replace(folder, [solution], paths.solution, "solve.sh", env, paths, IssuePhase.SETUP)


async def _replace(
    folder: TaskFolder,
    parts: Sequence[FolderPart],
    target: str,
    script: str,
    env: EnvironmentSession,
    paths: SandboxPaths,
    phase: IssuePhase,
) -> None:
    quoted = shlex.quote(target)
    await require(
        env,
        f"rm -rf {quoted} && mkdir -p {quoted}",
        user=paths.root,
        phase=phase,
        what=f"making {target}",
    )
    for part in parts:
        await upload_part(folder, part, target, env, paths, phase)
    await require(
        env,
        f"cd {quoted} && if [ -f {script} ]; then chmod +x {script}; fi",
        user=paths.root,
        phase=phase,
        what=f"making {target}/{script} executable",
    )


async def upload_part(
    folder: TaskFolder,
    part: FolderPart,
    target: str,
    env: EnvironmentSession,
    paths: SandboxPaths,
    phase: IssuePhase,
) -> None:
    """Copy a folder of the task over ``target``.

    Raises ``StageFailure`` when the folder has changed, or the environment cannot take it.
    """
    with tempfile.TemporaryDirectory(prefix="agentcompass-harbor-") as temporary:
        staged = Path(temporary) / "part"
        try:
            await asyncio.to_thread(stage, folder, part.path, staged, paths.rewritten, part.digest)
        except InvalidTaskError as error:
            raise StageFailure.fatal(phase, IssueCode.TASK_INPUT_INVALID, str(error)) from None
        await env.upload(staged, target)


async def grade(env: EnvironmentSession, facts: HarborFacts, paths: SandboxPaths) -> Grading:
    """Run ``test.sh`` in the work directory and read what it leaves; its exit status decides nothing.

    Raises ``StageFailure`` when the environment fails, or when the verifier was killed and left nothing.
    """
    folder = f"{paths.logs}/verifier"
    quoted = shlex.quote(folder)
    # A reward that the agent has left there is not the verifier's.
    await require(
        env,
        f"rm -rf {quoted} && mkdir -p {quoted} && chmod 777 {quoted}",
        user=paths.root,
        phase=IssuePhase.EVALUATE,
        what=f"emptying {folder}",
    )
    log = f"{folder}/test-stdout.txt"
    script = shlex.quote(f"{paths.tests}/test.sh")
    ended = await env.exec(f"({script}) > {shlex.quote(log)} 2>&1", user=_verifier_user(facts, paths))
    found = await _read_rewards(env, folder)
    output = await env.exec(
        ["tail", "-c", str(_SHOWN_BYTES), log], cwd="/", user=paths.root, timeout_seconds=60
    )
    grading = Grading(returncode=ended.returncode, seconds=ended.seconds, output=output.stdout.text)
    if isinstance(found, Rewards):
        return grading.model_copy(update={"rewards": found})
    if ended.returncode is None or ended.returncode < 0 or ended.returncode in _KILLED:
        message = f"the verifier was killed (status {ended.returncode}) and left no reward"
        raise StageFailure.error(IssuePhase.EVALUATE, IssueCode.EVALUATION_FAILED, message)
    return grading.model_copy(
        update={"problem": f"{found} (the verifier ended with status {ended.returncode})"}
    )


async def _read_rewards(env: EnvironmentSession, folder: str) -> Rewards | str:
    """The rewards, or why there are none."""
    for name, parse in (("reward.json", parse_json), ("reward.txt", parse_text)):
        try:
            return parse(await env.read(f"{folder}/{name}", max_bytes=LARGEST_REWARD_BYTES))
        except FileNotFoundError:
            continue
        except (IsADirectoryError, PermissionError, ValueError):  # a folder, a link outwards, far too much
            return f"{name} is no small file"
        except UnreadableRewardError as error:
            return str(error)
    return "the verifier left neither reward.json nor reward.txt"


def _verifier_user(facts: HarborFacts, paths: SandboxPaths) -> str | None:
    """The task's, else root where the agent was somebody else, else the environment's own."""
    return facts.verifier_user or (paths.root if facts.agent_user else None)


async def require_interpreter(
    env: EnvironmentSession, folder: TaskFolder, script: str, phase: IssuePhase
) -> None:
    """Raise ``StageFailure`` when the environment lacks what ``test.sh`` is run by: no score could be trusted."""
    first = folder.text(script).partition("\n")[0].strip()
    words = first[2:].split() if first.startswith("#!") else []
    if not words:
        return
    program = words[0]
    if program.rpartition("/")[2] == "env":
        program = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), program)
    found = await env.exec(f"command -v {shlex.quote(program)}", cwd="/", timeout_seconds=60)
    if not found.ok:
        message = f"{script} needs {program}, which the environment has not"
        raise StageFailure.fatal(phase, IssueCode.TASK_INPUT_INVALID, message)
