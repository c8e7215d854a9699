"""Processes of a ``host_process`` environment as this machine sees them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from environment_providers import pid_written_to

from agentcompass.contracts import EnvironmentSession
from agentcompass.plugins.environments.host_process.process_table import ProcessIdentity, identity_of


async def seen_here(session: EnvironmentSession, path: str) -> ProcessIdentity:
    """The process that has written its id, as it is inside, into a file."""
    inside = await pid_written_to(session, path)
    return await asyncio.to_thread(_found, session.workdir, inside)


def _found(workdir: str, inside: int) -> ProcessIdentity:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            numbers = next(
                line.split()[1:]
                for line in (folder / "status").read_text(errors="replace").splitlines()
                if line.startswith("NSpid:")
            )
            mine = (folder / "cwd").readlink() == Path(workdir)
        except OSError:
            continue  # it ended while we looked
        if mine and int(numbers[-1]) == inside and (found := identity_of(int(folder.name))):
            return found
    raise AssertionError(f"no process of {workdir} is {inside} inside")
