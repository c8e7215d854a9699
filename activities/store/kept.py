"""``kept_environments.jsonl``: the environments that ``keep_environment`` left running."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from ...contracts.activities import ExecutionRef
from ...contracts.base import Contract
from ...contracts.environment import EnvironmentHandle
from .files import append, encode, read_bytes

KEPT_FILE = "kept_environments.jsonl"


class KeptEnvironment(Contract):
    """An environment that nobody closes, and the execution that it belongs to."""

    task_id: str
    attempt: int
    execution: int
    handle: EnvironmentHandle


def note_kept(ref: ExecutionRef, handle: EnvironmentHandle) -> None:
    """Write it down; a repeated step writes a second line for the same environment."""
    kept = KeptEnvironment(task_id=ref.task_id, attempt=ref.attempt, execution=ref.execution, handle=handle)
    append(Path(ref.run_dir) / KEPT_FILE, encode(kept))


def read_kept(run_dir: Path) -> list[KeptEnvironment]:
    """The environments of a run that were kept, in the order in which they were opened."""
    found: dict[str, KeptEnvironment] = {}
    for line in (read_bytes(run_dir / KEPT_FILE) or b"").splitlines():
        try:
            kept = KeptEnvironment.model_validate_json(line)
        except ValidationError:
            continue  # cut off when its writer was killed
        found.setdefault(kept.handle.id, kept)
    return list(found.values())
