"""What the provider contract suite needs to know of a provider, and how it looks into a sandbox."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcompass.contracts import (
    Environment,
    EnvironmentHandle,
    EnvironmentSession,
    EnvironmentSpec,
    NetworkPolicy,
    OpenRequest,
)

DRIVER = Path(__file__).with_name("environment_driver.py")
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class ProviderUnderTest:
    """A provider as the suite uses it; another process makes the same one from these values."""

    target: str
    """``package.module:Class``."""
    params: dict[str, Any]
    """Parameters with an output limit of 8 MiB where the provider has one."""
    spec: EnvironmentSpec
    output_limit_bytes: int | None = None
    """Set when the provider ends commands that write more than this."""
    limited: dict[str, Any] = field(default_factory=dict)
    """Parameters that set that limit."""

    def make(self, **changes: Any) -> Environment[Any]:
        """An instance, with some parameters changed."""
        module, _, name = self.target.partition(":")
        provider: type[Environment[Any]] = getattr(importlib.import_module(module), name)
        return provider(provider.Params.model_validate(self.params | changes))

    def open_request(self, environment_id: str = "", **changes: Any) -> OpenRequest:
        """A request for a sandbox of a new id, or of the given one."""
        values: dict[str, Any] = {
            "environment_id": environment_id or f"contract/Task {uuid.uuid4().hex[:12]}/a1/x1",
            "spec": self.spec,
            "network_policy": NetworkPolicy(),
            "labels": {"launch": "contract", "task": "t"},
        }
        return OpenRequest(**(values | changes))

    async def start_other_process(
        self, handle: EnvironmentHandle, action: str, *arguments: str
    ) -> asyncio.subprocess.Process:
        """Start a second Python process that attaches to ``handle`` and does ``action``."""
        return await asyncio.create_subprocess_exec(
            sys.executable,
            str(DRIVER),
            json.dumps({"target": self.target, "params": self.params}, default=str),
            handle.model_dump_json(),
            action,
            *arguments,
            stdout=asyncio.subprocess.PIPE,
        )

    async def in_other_process(self, handle: EnvironmentHandle, action: str, *arguments: str) -> Any:
        """What ``action`` returned in a second Python process."""
        process = await self.start_other_process(handle, action, *arguments)
        output, _ = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
        assert process.returncode == 0
        return json.loads(output)


async def eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until something that nobody announces has happened."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not await condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what}"
        await asyncio.sleep(0.02)


async def runs_inside(session: EnvironmentSession, pid: int) -> bool:
    """Whether a process of the sandbox, by its id in there, is alive (a zombie is not)."""
    script = (
        f"if [ -d /proc/self ]; then [ -r /proc/{pid}/stat ] || exit 1; "
        f'state=$(sed \'s/.*) //; s/ .*//\' /proc/{pid}/stat) && [ -n "$state" ] && [ "$state" != Z ]; '
        f"else kill -0 {pid}; fi"
    )
    return (await session.exec(script)).returncode == 0


async def pid_written_to(session: EnvironmentSession, path: str) -> int:
    """The process id that a process of the sandbox writes into a file, once it is there."""
    found: list[int] = []

    async def written() -> bool:
        try:
            text = (await session.read(path)).decode()
        except FileNotFoundError:
            return False
        if text.endswith("\n"):
            found.append(int(text))
        return bool(found)

    await eventually(written, f"{path} holds a process id")
    return found[0]
