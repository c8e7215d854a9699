"""Removing what launches leave in the AgentCompass home once they are over.

A key that was written out lies in a private file for as long as a worker of its launch may need it.
The logs of workers are kept for the latest launches.
"""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
from pathlib import Path

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from ..contracts.launch import LaunchSpec
from ..contracts.workflows import launch_workflow_id

KEPT_LOGS = 50
"""Launches whose worker logs stay, the latest."""
STALE_SECONDS = 24 * 3600.0
"""Age from which the key of a launch is looked after that nobody cleaned up behind."""

_OWNER = ".launch"
_REFERENCE = re.compile(r"/secrets/([0-9a-f]{32})\b")
_SUFFIXES = (".supervisor.log", ".log", ".lock", ".json", ".served")
_log = logging.getLogger(__name__)


def own_secrets(home: Path, launch_id: str, spec: LaunchSpec) -> None:
    """Note beside each private key file of ``spec`` that this launch is the one that needs it."""
    for name in set(_REFERENCE.findall(spec.model_dump_json())):
        file = home / "secrets" / name
        if file.is_file():
            file.with_suffix(_OWNER).write_text(launch_id, encoding="utf-8")


def has_lost_secrets(home: Path, spec: LaunchSpec) -> bool:
    """Whether ``spec`` names a private key file that was removed together with its launch."""
    names = set(_REFERENCE.findall(spec.model_dump_json()))
    return any(not (home / "secrets" / name).is_file() for name in names)


def forget_secrets(home: Path, launch_id: str) -> None:
    """Remove the private key files of a launch that is over."""
    for owner in (home / "secrets").glob(f"*{_OWNER}"):
        if _read(owner) == launch_id:
            owner.with_suffix("").unlink(missing_ok=True)
            owner.unlink(missing_ok=True)


async def sweep(client: Client, home: Path) -> None:
    """Remove what earlier launches left behind that nobody followed to their end.

    A failure is logged and no more: the launch that is being started does not depend on it.
    """
    try:
        await _sweep_secrets(client, home)
        await _sweep_workers(client, home)
    except (OSError, RPCError) as error:
        _log.warning("files of earlier launches below %s could not be removed: %s", home, error)


async def _sweep_secrets(client: Client, home: Path) -> None:
    stale = time.time() - STALE_SECONDS
    owners = [path for path in (home / "secrets").glob(f"*{_OWNER}") if _modified(path) < stale]
    for launch_id in {_read(owner) for owner in owners}:
        if not await _runs(client, launch_id):
            forget_secrets(home, launch_id)


async def _sweep_workers(client: Client, home: Path) -> None:
    """Keep the files of the latest launches, and of all that run."""
    files: defaultdict[str, list[Path]] = defaultdict(list)
    for path in (home / "workers").glob("*"):
        suffix = next((suffix for suffix in _SUFFIXES if path.name.endswith(suffix)), None)
        if suffix is not None:
            files[path.name.removesuffix(suffix)].append(path)
    latest_first = sorted(files, key=lambda name: max(map(_modified, files[name])), reverse=True)
    for launch_id in latest_first[KEPT_LOGS:]:
        if not await _runs(client, launch_id):
            for path in files[launch_id]:
                path.unlink(missing_ok=True)


async def _runs(client: Client, launch_id: str) -> bool:
    try:
        description = await client.get_workflow_handle(launch_workflow_id(launch_id)).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False  # it was never started, or its history is gone
        raise
    return description.status is WorkflowExecutionStatus.RUNNING


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""  # removed in this moment by another command


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
