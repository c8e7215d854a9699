"""How far a collection is, kept so that a worker's death repeats little of it."""

from __future__ import annotations

from pydantic import Field

from ...contracts.artifacts import ArtifactEntry
from ...contracts.base import Contract
from ..store import ExecutionStore

_CHECKPOINT = "artifact_collection"


class CollectionProgress(Contract):
    """Commands that ended well, artifacts that are settled, and the seconds charged so far."""

    commands_done: int = 0
    command_seconds: float = 0.0
    transfer_seconds: float = 0.0
    entries: list[ArtifactEntry] = Field(default_factory=list)

    @classmethod
    def load(cls, execution: ExecutionStore) -> CollectionProgress:
        """What an earlier try left, else a new one."""
        stored = execution.load_checkpoint(_CHECKPOINT)
        return cls() if stored is None else cls.model_validate(stored)

    def save(self, execution: ExecutionStore) -> None:
        """Store durably."""
        execution.save_checkpoint(_CHECKPOINT, self.model_dump(mode="json"))
