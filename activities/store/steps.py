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
    """Reads what an attempt recorded since the last look; an execution that repeats a step adds nothing.

    A task that is given step by step has a file for each of its steps, which counts from 1; here the
    numbers go on, as in the trajectory of its result.
    """

    def __init__(self, attempt_dir: Path) -> None:
        self._dir = attempt_dir
        self._offsets: dict[Path, int] = {}
        self._last: dict[Path, int] = {}
        """The highest number in each file."""
        self._seen: dict[tuple[Path, int], bytes] = {}

    def read(self) -> list[RecordedStep]:
        """New steps in their order; none when nothing was recorded or the attempt is over."""
        found: list[RecordedStep] = []
        for execution, folder in _numbered(self._dir, "e"):
            before = 0
            for path in [folder, *(part for _, part in _numbered(folder, "s"))]:
                steps, complete = self._new_steps(path)
                for step in steps:
                    self._last[path] = max(self._last.get(path, 0), step.step_id)
                    shown = step.model_copy(update={"step_id": before + step.step_id})
                    found.append(RecordedStep(execution=execution, step=shown))
                before += self._last.get(path, 0)
                if not complete:
                    break  # what follows has numbers that are not known yet
        return found

    def _new_steps(self, folder: Path) -> tuple[list[TrajectoryStep], bool]:
        """Steps that were added or changed, and whether the file was read to its end."""
        lines, complete = self._new_lines(folder)
        found = []
        for line in lines:
            try:
                step = TrajectoryStep.model_validate_json(line)
            except ValidationError:
                continue  # cut off when its writer was killed
            key, digest = (folder, step.step_id), hashlib.sha256(line).digest()
            if self._seen.get(key) != digest:
                self._seen[key] = digest
                found.append(step)
        return found, complete

    def _new_lines(self, folder: Path) -> tuple[list[bytes], bool]:
        offset = self._offsets.get(folder, 0)
        try:
            with (folder / "steps.jsonl").open("rb") as file:
                file.seek(offset)
                data = file.read(MAX_READ_BYTES)
        except FileNotFoundError:
            return [], True
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) == MAX_READ_BYTES:
            whole = len(data)  # longer than a look: left out, so that those after it can be seen
        self._offsets[folder] = offset + whole
        return data[:whole].splitlines(), len(data) < MAX_READ_BYTES


def _numbered(folder: Path, letter: str) -> list[tuple[int, Path]]:
    """The folders ``<letter>1``, ``<letter>2`` … in their order."""
    names = [path for path in folder.glob(f"{letter}[0-9]*") if path.name[1:].isdigit() and path.is_dir()]
    return sorted((int(path.name[1:]), path) for path in names)
