"""The session's server, used as a cluster: commands and workers of its users, who have a home of their own."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from command_line import CommandLine, Ended, Running, is_alive, wait_for
from gated_runs import make_command_line
from temporalio.client import Client

from agentcompass.contracts.workflows import NAMESPACE

_STARTED = re.compile(r"serving task queue", re.MULTILINE)


class Cluster:
    """One task queue of a server, and who works with it."""

    def __init__(self, embedded_home: Path, folder: Path, queue: str) -> None:
        state = json.loads((embedded_home / "server" / "state.json").read_bytes())
        self.address = f"127.0.0.1:{state['grpc_port']}"
        self.queue = queue
        self.command_line: CommandLine = make_command_line(folder / "home", folder)
        self.command_line.env |= {
            "TEMPORAL_ADDRESS": self.address,
            "TEMPORAL_NAMESPACE": NAMESPACE,
            "AGENTCOMPASS_TASK_QUEUE": queue,
        }

    def worker(self, *options: str, env: Mapping[str, str] | None = None) -> Running:
        """Start a worker and wait until it serves the queue."""
        flags = ("--task-queue", self.queue, "--concurrency", "8")
        worker = self.command_line.start("worker", *flags, *options, env=env)
        wait_for("the worker", lambda: _STARTED.search(worker.stderr) or _ended(worker))
        return worker

    def run_questions(
        self, rows: Sequence[Mapping[str, object]], *options: str, harness: str = "oracle"
    ) -> Ended:
        """Evaluate questions to the end."""
        dataset = self.command_line.dataset(rows)
        arguments = ("run", "qa", harness, "none", "--benchmark-params", dataset, "--progress", "none")
        return self.command_line.run(*arguments, *options)

    async def client(self) -> Client:
        """A client that shows payloads as they are."""
        return await Client.connect(self.address, namespace=NAMESPACE)


def _ended(worker: Running) -> None:
    assert is_alive(worker.pid), f"the worker ended:\n{worker.stderr}"


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
