"""Ending everything in an environment, whoever started it and however."""

from __future__ import annotations

from .detached import recorded_processes
from .directory import EnvironmentDirectory
from .ending import end_members, wait_until_gone
from .execution import Execution
from .membership import Scope, namespace_of
from .process_space import ProcessSpace
from .process_table import ProcessIdentity

_STATUS_SECONDS = 2.0


def end_everything(directory: EnvironmentDirectory, grace_seconds: float) -> int:
    """End all processes of the environment; supervisors last, so that they record how it went, then
    the holder of its process table.

    Returns how many were found, supervisors not counted. Blocks: call it in a thread.
    """
    recorded = recorded_processes(directory)
    leaders: set[ProcessIdentity] = {*recorded.supervisors, *recorded.commands}
    for marker in directory.proc.glob("exec-*.running"):
        leaders |= Execution(directory, marker.stem).scope.leaders
    holder = ProcessSpace(directory).holder
    kept = recorded.supervisors | ({holder} if holder else set())
    scope = Scope(
        directory.environment_id,
        directory.path,
        directory.proc,
        leaders=frozenset(leaders | kept),
        space=namespace_of(holder.pid) if holder else None,
    )
    count = end_members(scope, grace_seconds=grace_seconds, keep=kept)
    wait_until_gone(recorded.supervisors, _STATUS_SECONDS)
    end_members(scope, grace_seconds=0)
    return count
