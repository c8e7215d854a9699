"""Runs of scripted tasks, and what they left."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command_line import CommandLine, Ended, Running
from run_directory import events

PATTERN = "transient"


def make_command_line(home: Path, folder: Path) -> CommandLine:
    """A command line that finds the scripted components, as an installed extension."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [str(Path(__file__).parent / "rows_package"), os.environ.get("PYTHONPATH", "")]
    return CommandLine(home, folder, {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))})


def start_rows(
    command_line: CommandLine,
    rows: Sequence[dict[str, Any]],
    *options: str,
    execution: dict[str, Any] | None = None,
    benchmark: str = "rows",
    harness: str = "rows",
    env: dict[str, str] | None = None,
) -> Running:
    """Start a run of these tasks; retries wait for next to nothing."""
    settings = {"retry_min_delay_seconds": 0.01, "retry_max_delay_seconds": 0.02, **(execution or {})}
    return command_line.start(
        *("run", benchmark, harness, "none"),
        *("--env", "host_process", "--progress", "none"),
        *("--benchmark-params", json.dumps({"tasks": list(rows)}), "--execution-params", json.dumps(settings)),
        *options,
        env=env,
    )  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """A run that has ended, and its directory."""

    ended: Ended
    run_dir: Path

    @property
    def metrics(self) -> dict[str, Any]:
        """``metrics.json``."""
        found: dict[str, Any] = json.loads((self.run_dir / "metrics.json").read_bytes())
        return found

    @property
    def events(self) -> list[dict[str, Any]]:
        """All progress events."""
        return events(self.run_dir)

    def record(self, task: str) -> dict[str, Any]:
        """The record of a task."""
        names = [f"{task}.json", f"_error_{task}.json"]
        [path] = [path for name in names if (path := self.run_dir / "details" / name).exists()]
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found

    def attempt(self, task: str, number: int = 1) -> dict[str, Any]:
        """One attempt of a task."""
        found: dict[str, Any] = self.record(task)["attempts"][str(number)]
        return found

    def issues(self, task: str, number: int = 1) -> list[tuple[str, str, str]]:
        """Severity, phase and code of an attempt's issues."""
        return [
            (issue["severity"], issue["phase"], issue["code"])
            for issue in self.attempt(task, number)["issues"]
        ]

    def message(self, task: str) -> str:
        """Of the first issue."""
        text: str = self.attempt(task)["issues"][0]["message"]
        return text

    def correct(self, task: str, number: int = 1) -> bool | None:
        """The score of an attempt; ``None`` when there is none."""
        value: bool | None = self.attempt(task, number)["metrics"].get("correct")
        return value

    def state(self, task: str) -> str:
        """How the task counts: evaluated, unavailable or invalidated."""
        found = {item["task_id"]: item["state"] for item in self.metrics["exclusions"]}
        return found.get(task, "evaluated")

    def retries(self, task: str) -> list[dict[str, Any]]:
        """The retry records of a task, in order."""
        paths = sorted((self.run_dir / "retry_details").rglob("*.json"))
        records = [json.loads(path.read_bytes()) for path in paths]
        return [record for record in records if record["task_id"] == task]

    def retry_count(self, task: str, number: int = 1) -> int:
        """How often an attempt was executed again."""
        record = self.record(task)
        counts = record.get("retry_counts") or {}
        found: int = counts.get(str(number), 0)
        return found


def finish(command_line: CommandLine, running: Running) -> Rows:
    """Wait for the end of the only run of a command line."""
    ended = running.wait()
    assert command_line.run_dirs, ended.stderr + command_line.logs()
    [run_dir] = command_line.run_dirs
    return Rows(ended, run_dir)


def run_rows(
    command_line: CommandLine, rows: Sequence[dict[str, Any]], *options: str, **settings: Any
) -> Rows:
    """Run these tasks to their end."""
    return finish(command_line, start_rows(command_line, rows, *options, **settings))
