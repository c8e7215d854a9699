"""The second process of the provider contract suite: attaches to a sandbox and does one thing."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from typing import Any

from agentcompass.contracts import EnvironmentHandle, EnvironmentSession


async def follow(session: EnvironmentSession, process_id: str) -> None:
    """Print output of a detached process as it comes, until killed."""
    offset = 0
    while True:
        data = await session.read_process_output(process_id, "stdout", offset)
        offset += len(data)
        if data:
            print(json.dumps({"offset": offset}), flush=True)
        else:
            await asyncio.sleep(0.02)


async def start_and_follow(session: EnvironmentSession, process_id: str, command: str) -> None:
    """Start a detached process and follow it, until killed."""
    await session.start_process(process_id, command)
    await follow(session, process_id)


async def start(session: EnvironmentSession, process_id: str, command: str) -> Any:
    """Start a detached process and leave."""
    return (await session.start_process(process_id, command)).model_dump()


async def status(session: EnvironmentSession, process_id: str) -> Any:
    """The state of a detached process."""
    found = await session.process_status(process_id)
    return found.model_dump() if found else None


async def execute(session: EnvironmentSession, command: str) -> Any:
    """Run a command to its end."""
    result = await session.exec(command)
    return {"returncode": result.returncode, "stdout": result.stdout.text}


async def end_process(session: EnvironmentSession, process_id: str) -> None:
    """End a detached process."""
    await session.end_process(process_id)


async def main() -> None:
    """Make the provider, attach, act, print the answer as JSON."""
    provider, handle, action, *arguments = sys.argv[1:]
    described = json.loads(provider)
    module, _, name = described["target"].partition(":")
    kind = getattr(importlib.import_module(module), name)
    environment = kind(kind.Params.model_validate(described["params"]))
    parsed = EnvironmentHandle.model_validate_json(handle)
    if action == "close":
        print(json.dumps(await environment.close(parsed)))
        return
    session = await environment.attach(parsed)
    actions = {
        "follow": follow,
        "start_and_follow": start_and_follow,
        "start": start,
        "status": status,
        "execute": execute,
        "end_process": end_process,
    }
    print(json.dumps(await actions[action](session, *arguments)))


if __name__ == "__main__":
    asyncio.run(main())
