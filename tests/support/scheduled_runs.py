"""Schedules on the session's server, each test with a queue of its own."""

from __future__ import annotations

import contextlib
import io
import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, Ended, Running, wait_for

from agentcompass.cli.main import run_cli

NEVER = "0 0 29 2 *"
"""Comes due so rarely that no test meets it."""
TASKS = 3


class Schedules:
    """``agentcompass schedule`` on a queue that only this test's worker serves."""

    def __init__(self, command_line: CommandLine) -> None:
        self.command_line = command_line
        self.queue = f"schedules-{uuid.uuid4().hex[:8]}"
        self.name = f"nightly-{uuid.uuid4().hex[:8]}"
        self.env = {"AGENTCOMPASS_TASK_QUEUE": self.queue}

    @property
    def broken(self) -> Path:
        """While this file is there, all tasks of the plan fail."""
        return self.command_line.folder / "broken"

    @property
    def folder(self) -> Path:
        """Where the runs of the plan go."""
        return self.command_line.results / self.name / "smoke"

    def plan(self, *, name: str = "plan.yaml", **request: Any) -> str:
        """Write a launch file of one request, ``command`` unless something else is given; returns its name."""
        rows = [{"id": f"t{number}", "command": f"test ! -e {self.broken}"} for number in range(TASKS)]
        self.command_line.dataset(rows)
        values = {
            "name": "smoke",
            "benchmark": {"id": "command", "path": "tasks.jsonl"},
            "harness": {"id": "none"},
            "environment": {"id": "host_process"},
            "model": {"id": "none"},
        }
        document = {"version": 1, "requests": [values | request]}
        (self.command_line.folder / name).write_text(json.dumps(document), encoding="utf-8")
        return name

    def run(self, command: str, *arguments: str, env: Mapping[str, str] | None = None) -> Ended:
        """``agentcompass schedule COMMAND …``."""
        return self.call("schedule", command, *arguments, env=env)

    def call(self, *arguments: str, env: Mapping[str, str] | None = None) -> Ended:
        """Any command, up to its exit code: in this process, for most of a command's time is spent on imports."""
        stdout, stderr = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
            patch.chdir(self.command_line.folder)
            patch.syspath_prepend(str(Path(__file__).parent / "gated_package"))
            for name, value in {**self.env, **(env or {})}.items():
                patch.setenv(name, value)
            stack.enter_context(contextlib.redirect_stdout(stdout))
            stack.enter_context(contextlib.redirect_stderr(stderr))
            code = run_cli(arguments)
        return Ended(code, stdout.getvalue(), stderr.getvalue())

    def process(self, *arguments: str) -> Ended:
        """Any command, as a process."""
        return self.command_line.run(*arguments, env=self.env)

    def create(self, *arguments: str, plan: str = "", cron: str = NEVER) -> Ended:
        """Create the schedule of this test."""
        return self.run("create", self.name, "--cron", cron, plan or self.plan(), *arguments).expect(0)

    def worker(self, env: Mapping[str, str] | None = None) -> Running:
        """Start a worker as the message of ``create`` says; it ends with the test."""
        return self.command_line.start("worker", "--task-queue", self.queue, env=env)

    def show(self) -> Any:
        """What there is to tell."""
        return self.run("show", self.name, "--json").expect(0).json

    def actions(self, count: int) -> Sequence[Any]:
        """What the schedule has started, the latest first, once ``count`` of it are over."""

        def look() -> Sequence[Any] | None:
            found: list[Any] = self.show()["actions"]
            over = [item for item in found if item["outcome"] not in ("running", "waiting")]
            return found if len(over) >= count else None

        return wait_for(f"the end of {count} scheduled launches", look)

    def trigger(self) -> str:
        """Trigger a launch; its id, as soon as a worker has taken it up."""
        started = self.run("trigger", self.name, "--json").expect(0).json["started"]

        def look() -> str | None:
            found = next(
                item for item in self.show()["actions"] if item["workflow_id"] == started["workflow_id"]
            )
            return found["launch_id"] or None

        return str(started["launch_id"] or wait_for("the id of the launch", look))

    def trigger_to_end(self) -> tuple[str, Ended]:
        """Trigger a launch and follow it; its id, and how ``attach`` ended."""
        launch = self.trigger()
        return launch, self.call("attach", launch)
