"""The steps of a running attempt, read while they are being written."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import ValidationError

from ...contracts.base import Contract
from ...contracts.result import TrajectoryStep

MAX_READ_BYTES = 16 * 1024 * 1024
"""What one look takes in at most; the rest comes with the next."""


class RecordedStep(Contract):
    """A step, and the execution that it belongs to."""

    execution: int
    step: TrajectoryStep


class StepReader:
    """Reads what an attempt recorded since the last look; an execution that repeats a step adds nothing."""

    def __init__(self, attempt_dir: Path) -> None:
        self._dir = attempt_dir
        self._offsets: dict[int, int] = {}
        self._seen: dict[tuple[int, int], bytes] = {}

    def read(self) -> list[RecordedStep]:
        """New steps in their order; none when nothing was recorded or the attempt is over."""
        found: list[RecordedStep] = []
        for number in sorted(self._executions()):
            for line in self._new_lines(number):
                try:
                    step = TrajectoryStep.model_validate_json(line)
                except ValidationError:
                    continue  # cut off when its writer was killed
                key, digest = (number, step.step_id), hashlib.sha256(line).digest()
                if self._seen.get(key) != digest:
                    self._seen[key] = digest
                    found.append(RecordedStep(execution=number, step=step))
        return found

    def _executions(self) -> list[int]:
        names = [path.name[1:] for path in self._dir.glob("e[0-9]*")]
        return [int(name) for name in names if name.isdigit()]

    def _new_lines(self, number: int) -> list[bytes]:
        offset = self._offsets.get(number, 0)
        try:
            with (self._dir / f"e{number}" / "steps.jsonl").open("rb") as file:
                file.seek(offset)
                data = file.read(MAX_READ_BYTES)
        except FileNotFoundError:
            return []
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) == MAX_READ_BYTES:
            whole = len(data)  # longer than a look: left out, so that those after it can be seen
        self._offsets[number] = offset + whole
        return data[:whole].splitlines()
