"""The test's side of the gated components: close gates, wait for hooks, read the ledger."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from command_line import wait_for

VARIABLE = "AGENTCOMPASS_TEST_GATES"


@dataclass(frozen=True)
class Entry:
    """A hook of a task that ``began`` or ``ended`` in a process."""

    task: str
    hook: str
    what: str
    pid: int


class Gates:
    """A folder of gates, one for each command line that is to have its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    @property
    def env(self) -> dict[str, str]:
        """Tells the components where the gates are."""
        return {VARIABLE: str(self.folder)}

    def close(self, task: str, hook: str) -> None:
        """The hook will wait when it comes there."""
        self._file(task, hook, "closed").touch()

    def wait(self, task: str, hook: str) -> int:
        """Return when the hook stands at its gate: the process id of its worker."""
        file = self._file(task, hook, "waiting")
        return int(wait_for(f"{hook} of {task}", lambda: file.read_text() if file.exists() else None))

    def open(self, task: str, hook: str) -> None:
        """Let the hook go on."""
        self._file(task, hook, "closed").unlink()

    def spoil(self, task: str, hook: str) -> None:
        """The hook will raise."""
        self._file(task, hook, "broken").touch()

    def mend(self, task: str, hook: str) -> None:
        """The hook does its work again."""
        self._file(task, hook, "broken").unlink()

    def entries(self) -> list[Entry]:
        """The ledger."""
        lines = (self.folder / "ledger.jsonl").read_text().splitlines()
        return [Entry(**json.loads(line)) for line in lines]

    def calls(self) -> Counter[tuple[str, str, str]]:
        """How often each hook of each task began and ended."""
        return Counter((entry.task, entry.hook, entry.what) for entry in self.entries())

    def _file(self, task: str, hook: str, end: str) -> Path:
        return self.folder / f"{task}.{hook}.{end}"
