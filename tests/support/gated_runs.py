"""Runs of the gated components: a task for each phase in which a test may stop them."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from pathlib import Path

from command_line import CommandLine, Ended, Running
from gates import Gates
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from agentcompass.contracts.workflows import NAMESPACE

TASKS = ["plan", "open", "prepare", "start", "run", "collect", "evaluate", "close", "save", "announce"]
CONFIG = """
runtime:
  heartbeat_timeout_seconds: {heartbeat_timeout_seconds}
  cleanup_grace_seconds: 20
  progress: plain
"""
QUICK_HEARTBEAT = 4
"""Seconds until the work of a killed worker is given to another; two would do on an idle machine."""
SLOW_HEARTBEAT = 60
"""Longer than a server is away, so that a living worker keeps its work."""


def make_command_line(home: Path, folder: Path) -> CommandLine:
    """A command line that finds the gated components, as an installed extension."""
    paths = [str(Path(__file__).parent / "gated_package"), os.environ.get("PYTHONPATH", "")]
    return CommandLine(home, folder, {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))})


def start_gated(
    command_line: CommandLine,
    gates: Gates,
    *options: str,
    tasks: list[str] = TASKS,
    concurrency: int = 1,
    heartbeat: int = QUICK_HEARTBEAT,
    benchmark: str = "gated",
) -> Running:
    """Start a run of ``tasks``; by default one after the other, so that a kill hits one of them."""
    # One file for all runs: run_info.json names it, and runs are compared.
    config = command_line.home.parent / f"heartbeat_{heartbeat}.yaml"
    if not config.exists():  # written whole: another run may be reading it
        new = config.with_suffix(f".{secrets.token_hex(6)}")
        new.write_text(CONFIG.format(heartbeat_timeout_seconds=heartbeat), encoding="utf-8")
        new.replace(config)
    return command_line.start(
        *("run", benchmark, "gated", "none", "--env", "gated", "--config", str(config)),
        *("--benchmark-params", json.dumps({"tasks": tasks}), "--task-concurrency", str(concurrency)),
        *options,
        env=gates.env,
    )


def run_gated(command_line: CommandLine, gates: Gates, *, tasks: list[str] = TASKS) -> Ended:
    """The same to its end."""
    return start_gated(command_line, gates, tasks=tasks).wait()


def terminate_launch(command_line: CommandLine, launch: str) -> None:
    """As an operator does who ends a launch in the Temporal UI: without any cleaning up."""

    async def terminate() -> None:
        client = await Client.connect(f"127.0.0.1:{command_line.server_port}", namespace=NAMESPACE)
        async for item in client.list_workflows("ExecutionStatus = 'Running'"):
            if launch in item.id:
                try:
                    await client.get_workflow_handle(item.id).terminate()
                except RPCError as error:
                    if error.status is not RPCStatusCode.NOT_FOUND:  # it ended by itself in this moment
                        raise

    asyncio.run(terminate())
