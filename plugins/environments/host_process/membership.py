"""Which processes belong to an environment, or to one command in it.

A process belongs when it carries the markers in its initial environment. One that has wiped its
environment still belongs when it descends from one that does, is in the session of a recorded
leader, writes its output into the environment's files, or (environment only) is in its process table or works
in its folder without a terminal. Nothing is ever found by name.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .process_table import LINUX, ProcessIdentity, ProcessInfo, is_alive, snapshot

ENVIRONMENT_ID = "AGENTCOMPASS_ENVIRONMENT_ID"
ENVIRONMENT_DIRECTORY = "AGENTCOMPASS_ENVIRONMENT_DIRECTORY"
COMMAND_ID = "AGENTCOMPASS_COMMAND_ID"


@dataclass(frozen=True)
class Scope:
    """An environment, or one command of it when ``command_id`` is given."""

    environment_id: str
    directory: Path
    output_folder: Path
    """Output of the scope goes to files below this folder (or is this file)."""
    command_id: str | None = None
    leaders: frozenset[ProcessIdentity] = frozenset()
    """Processes that were started by us; each leads a session of its own."""
    space: str | None = None
    """The environment's own process table, see :func:`namespace_of`; whatever is in it belongs."""

    @property
    def markers(self) -> dict[str, str]:
        """Variables that every process of the scope is started with."""
        variables = {ENVIRONMENT_ID: self.environment_id, ENVIRONMENT_DIRECTORY: str(self.directory)}
        return variables if self.command_id is None else variables | {COMMAND_ID: self.command_id}


def members(scope: Scope, known: Iterable[ProcessIdentity] = ()) -> list[ProcessInfo]:
    """The living processes of ``scope``; ``known`` were members before and still count."""
    processes = snapshot()
    recorded = scope.leaders | set(known)
    # Ids are reused, even within one look at a busy machine. A process that is alive before and
    # after has kept its id all the while, so what names it as parent or leader means it.
    leading = {
        info.identity.pid for info in processes if info.identity in recorded and is_alive(info.identity)
    }
    children: dict[int, list[ProcessInfo]] = defaultdict(list)
    for info in processes:
        children[info.parent].append(info)
    found: dict[int, ProcessInfo] = {}
    pending = [info for info in processes if _belongs(info, scope, leading)]
    while pending:
        info = pending.pop()
        pid = info.identity.pid
        if pid in found or pid == os.getpid():
            continue
        found[pid] = info
        if children[pid] and is_alive(info.identity):
            pending.extend(children[pid])
    return list(found.values())


def _belongs(info: ProcessInfo, scope: Scope, leading: set[int]) -> bool:
    if info.identity.pid in leading or info.session in leading or info.group in leading:
        return True
    if not LINUX:
        return all(f" {name}={value} " in f" {info.text} " for name, value in scope.markers.items())
    if scope.space is not None and namespace_of(info.identity.pid) == scope.space:
        return True
    return (
        has_variables(info.identity.pid, scope.markers)
        or _writes_into(info, scope)
        or _works_inside(info, scope)
    )


def namespace_of(pid: int) -> str | None:
    """The process table that a process is in, ``None`` when it is gone or another user's."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def has_variables(pid: int, variables: Mapping[str, str]) -> bool:
    """Whether a process was started with these variables."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            entries = set(stream.read().split(b"\0"))
    except OSError:  # gone meanwhile, or of another user
        return False
    return all(os.fsencode(f"{name}={value}") in entries for name, value in variables.items())


def _writes_into(info: ProcessInfo, scope: Scope) -> bool:
    # Standard output and error only: a reader of the files, like the worker, has them elsewhere.
    return any(_link_is_below(info, f"fd/{number}", scope.output_folder) for number in (1, 2))


def _works_inside(info: ProcessInfo, scope: Scope) -> bool:
    # A terminal means a person who looks at the files.
    if scope.command_id is not None or info.has_terminal:
        return False
    return _link_is_below(info, "cwd", scope.directory)


def _link_is_below(info: ProcessInfo, link: str, folder: Path) -> bool:
    try:
        target = os.readlink(f"/proc/{info.identity.pid}/{link}").removesuffix(" (deleted)")
    except OSError:  # gone meanwhile, closed, or of another user
        return False
    return target == str(folder) or target.startswith(f"{folder}/")
