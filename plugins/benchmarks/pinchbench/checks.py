"""Running a task's ``grade`` function inside its environment, where it can do no harm elsewhere."""

from __future__ import annotations

import json
import math
import secrets
import shlex

from pydantic import JsonValue

from ....contracts.environment import EnvironmentSession
from ....contracts.errors import StageFailure
from ....contracts.issues import IssueCode, IssuePhase
from ....contracts.result import Trajectory

_STARTED = b"agentcompass: started\n"
_SHOWN_CHARS = 500

# All comes over standard input, so that nothing lies in the workspace that is being judged. The result
# carries a nonce that neither the checks nor what they execute have seen in an argument or a variable.
_RUNNER = f"""\
import json, os, sys
def main():
    asked = json.loads(sys.stdin.buffer.read())
    nonce = asked.pop("nonce")
    out = os.dup(1)
    os.set_inheritable(out, False)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.write(out, {_STARTED!r})
    os.chdir(asked["workspace"])
    names = {{"__name__": "checks"}}
    exec(compile(asked["code"], "checks", "exec"), names)
    scores = names["grade"](asked["transcript"], asked["workspace"])
    text = json.dumps({{str(name): value for name, value in scores.items()}})
    data = ("\\n" + nonce + text + "\\n").encode()
    while data:
        data = data[os.write(out, data):]
main()
"""


async def run_checks(
    env: EnvironmentSession, code: str, transcript: list[JsonValue], *, python: str, timeout_seconds: float
) -> dict[str, float]:
    """The scores by criterion, each from 0 to 1.

    Raises ``StageFailure``: FATAL when Python does not start, ERROR when the checks give no scores.
    """
    nonce = secrets.token_hex(16)
    asked = {"nonce": nonce, "code": code, "transcript": transcript, "workspace": env.workdir}
    command = [*shlex.split(python), "-I", "-u", "-c", _RUNNER]
    try:
        ended = await env.exec(command, stdin=json.dumps(asked).encode(), timeout_seconds=timeout_seconds)
    except FileNotFoundError as error:
        raise _not_started(python, str(error)) from error
    stdout = ended.stdout.head + ended.stdout.tail
    if not stdout.startswith(_STARTED):
        raise _not_started(python, ended.stderr.text)
    if ended.timed_out:
        raise _failed(f"the checks did not end within {timeout_seconds:g} s")
    mark = stdout.rfind(b"\n" + nonce.encode())
    if ended.returncode != 0 or mark < 0:
        reason = ended.stderr.text.strip()[-_SHOWN_CHARS:]
        raise _failed(f"the checks ended with status {ended.returncode} and without scores: {reason}")
    return _scores(stdout[mark + 1 + len(nonce) :])


def transcript_of(trajectory: Trajectory | None) -> list[JsonValue]:
    """The trajectory as the events that checks expect."""
    events: list[JsonValue] = []
    for step in trajectory.steps if trajectory else []:
        text = step.message if isinstance(step.message, str) else json.dumps(step.message, ensure_ascii=False)
        content: list[JsonValue] = [{"type": "text", "text": text}] if text else []
        for call in step.tool_calls:
            content.append(
                {
                    "type": "toolCall",
                    "id": call.id,
                    "name": call.name,
                    "arguments": call.arguments,
                    "params": call.arguments,
                }
            )
        role = "assistant" if step.source == "agent" else step.source
        events.append({"type": "message", "message": {"role": role, "content": content}})
        for seen in step.observations:
            shown = (
                seen.content
                if isinstance(seen.content, str)
                else json.dumps(seen.content, ensure_ascii=False)
            )
            result: JsonValue = {
                "role": "toolResult",
                "toolCallId": seen.tool_call_id,
                "content": [{"type": "text", "text": shown}],
            }
            events.append({"type": "message", "message": result})
    return events


def _scores(data: bytes) -> dict[str, float]:
    value = json.loads(data)  # our own runner wrote it
    found: dict[str, float] = {}
    for name, score in value.items():
        if not isinstance(score, int | float) or not math.isfinite(score) or not 0 <= score <= 1:
            raise _failed(
                f"the checks give {name!r} the score {score!r}, which is no number from 0 to 1"[:300]
            )
        found[name] = float(score)
    if not found:
        raise _failed("the checks give no scores")
    return found


def _not_started(python: str, reason: str) -> StageFailure:
    message = f"{python!r} did not start in the environment: {reason.strip()[-300:] or 'no output'}"
    return StageFailure.fatal(IssuePhase.EVALUATE, IssueCode.ENVIRONMENT_FAILED, message)


def _failed(message: str) -> StageFailure:
    return StageFailure.error(IssuePhase.EVALUATE, IssueCode.EVALUATION_FAILED, message)
