"""What a compose file says of the service ``main``, whose first process is ours: its command, its health."""

from __future__ import annotations

import asyncio
import re
import time

from ....contracts.environment import Command
from .compose import Service
from .session import DockerSession

PROCESS = "compose-main"
"""The id of the process that runs the command; it is ended like anything else before a verdict."""
_IDLE = re.compile(
    r"((/usr)?(/bin/)?(ba|da|a)?sh( -\w+)?)? ?(exec )?((/usr)?(/bin/)?(sleep (infinity|inf|\d+[smhd]?)|tail -f /dev/null))?"
)


async def begin(session: DockerSession, main: Service, user: str, deadline: float) -> None:
    """Start its command, unless that only keeps a container alive, and wait until it is healthy.

    Safe to repeat. Raises ``OSError`` when it is not healthy by ``deadline`` (``time.monotonic()``).
    """
    words = [*(main.entrypoint or []), *(main.command or [])]
    if words and not _IDLE.fullmatch(" ".join(words)):
        await session.start_process(PROCESS, words, user=user)
    check = main.healthcheck
    if check is None or check.disabled or not check.test:
        return
    command: Command = check.test[1] if check.test[0] == "CMD-SHELL" else check.test[1:]
    began, failures = time.monotonic(), 0
    while True:
        left = max(0.1, deadline - time.monotonic())
        ended = await session.exec(command, timeout_seconds=min(check.timeout or left, left), user=user)
        if ended.ok:
            return
        starting = time.monotonic() - began < check.start_period
        failures += 0 if starting else 1
        if failures >= check.retries or time.monotonic() > deadline:
            output = (ended.stderr.text or ended.stdout.text).strip()[-300:]
            raise OSError(f"service 'main' is not healthy: {output or f'status {ended.returncode}'}")
        await asyncio.sleep(min(check.interval or 1.0, max(0.0, deadline - time.monotonic())))
