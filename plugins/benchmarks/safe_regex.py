"""Searching a model's answer with a data set's regular expression, without trusting their meeting.

A pattern such as ``(a+)+$`` can take longer than the universe on thirty characters, and Python's
``re`` holds the interpreter all the while: neither a thread nor an asyncio timeout helps. The
search therefore runs in a small process, which can be killed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import orjson

MAX_TEXT_CHARS = 20_000
"""Only this much of a text is searched, from its end: final answers stand there."""
LIMIT_SECONDS = 5.0

# Answers for each pattern with the groups of its last match, the whole match first, or null.
_SEARCH = """\
import json, re, sys
request = json.load(sys.stdin)
answers = []
for pattern in request["patterns"]:
    last = None
    for last in re.finditer(pattern, request["text"]):
        pass
    answers.append(None if last is None else [last.group(), *last.groups()])
json.dump(answers, sys.stdout)
"""


class RegexTimeoutError(Exception):
    """The search took longer than its limit; the message names the patterns."""


async def last_matches(
    patterns: Sequence[str], text: str, *, limit_seconds: float = LIMIT_SECONDS
) -> list[list[str | None] | None]:
    """For each pattern the last match in ``text``: whole match, then groups; ``None`` without one.

    Raises ``RegexTimeoutError`` after ``limit_seconds``, and ``RuntimeError`` when the process fails.
    The patterns must have been compiled before, so that a wrong one is reported with its place.
    """
    request = orjson.dumps({"patterns": list(patterns), "text": text[-MAX_TEXT_CHARS:]})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", _SEARCH),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(limit_seconds):
            stdout, stderr = await process.communicate(request)
    except TimeoutError:
        shown = ", ".join(repr(pattern[:100]) for pattern in patterns[:3])
        raise RegexTimeoutError(
            f"searching the answer for {shown} took longer than {limit_seconds:g} s"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise RuntimeError(f"regular expression process failed: {stderr.decode(errors='replace')[-300:]}")
    answers: list[list[str | None] | None] = orjson.loads(stdout)
    return answers
