"""The flags of ``agentcompass worker``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ...worker import WorkerOptions

DEFAULT_QUEUE = "agentcompass"
DEFAULT_CONCURRENCY = 64
DEFAULT_DRAIN_SECONDS = 10.0
MOST_WORKERS = 256
"""Processes of one machine; each takes some hundred megabytes."""

VERSION = "Version of the code"
OBSERVED = "Watching it"


@dataclass(frozen=True)
class WorkerFlags:
    """How a worker serves its queue."""

    task_queue: Annotated[
        str, typer.Option("--task-queue", metavar="NAME", help="Queue that this worker serves.")
    ] = DEFAULT_QUEUE
    concurrency: Annotated[
        int,
        typer.Option(
            "--concurrency",
            metavar="N",
            min=1,
            help="Activities at a time; more than the attempts of a launch.",
        ),
    ] = DEFAULT_CONCURRENCY
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            max=MOST_WORKERS,
            help="Processes to run, each with this concurrency.",
        ),
    ] = 1
    drain_seconds: Annotated[
        float,
        typer.Option(
            "--drain-seconds",
            metavar="N",
            min=0,
            help="After SIGTERM, time for running activities to end before others take them over.",
        ),
    ] = DEFAULT_DRAIN_SECONDS
    until_closed: Annotated[
        str, typer.Option("--until-closed", metavar="LAUNCH", help="Leave when this launch is over.")
    ] = ""
    deployment_name: Annotated[
        str,
        typer.Option(
            "--deployment-name",
            metavar="NAME",
            rich_help_panel=VERSION,
            help="Fleet of workers whose versions Temporal tells apart; needs --build-id.",
        ),
    ] = ""
    build_id: Annotated[
        str,
        typer.Option(
            "--build-id",
            metavar="ID",
            rich_help_panel=VERSION,
            help="State of the code, extensions included; attempts stay with the one that began them.",
        ),
    ] = ""
    metrics_address: Annotated[
        str,
        typer.Option(
            "--metrics-address",
            metavar="IP:PORT",
            rich_help_panel=OBSERVED,
            help="Serve Prometheus metrics here, under /metrics. Further processes take the next ports.",
        ),
    ] = ""
    health_address: Annotated[
        str,
        typer.Option(
            "--health-address",
            metavar="IP:PORT",
            rich_help_panel=OBSERVED,
            help="Serve /healthz and /readyz here. Further processes take the next ports.",
        ),
    ] = ""
    private: Annotated[
        bool, typer.Option("--private", hidden=True, help="No other machine serves this queue.")
    ] = False
    number: Annotated[
        int, typer.Option("--number", hidden=True, min=0, help="Of this process among several.")
    ] = 0

    def options(self) -> WorkerOptions:
        """The flags checked. Raises ``UsageError`` that names the flag."""
        from ...contracts.errors import UsageError
        from ...worker import WorkerOptions
        from ..serving.addresses import parse_address
        from ..serving.deployment import parse_version

        if not self.task_queue.strip():
            raise UsageError("--task-queue: the value is empty")
        # The last of several processes has the highest port.
        last = max(self.number, self.workers - 1)
        for value, flag in (
            (self.metrics_address, "--metrics-address"),
            (self.health_address, "--health-address"),
        ):
            parse_address(value, flag, offset=last)
        return WorkerOptions(
            task_queue=self.task_queue,
            concurrency=self.concurrency,
            private=self.private,
            until_closed=self.until_closed,
            version=parse_version(self.deployment_name, self.build_id),
            metrics_address=parse_address(self.metrics_address, "--metrics-address", offset=self.number),
            health_address=parse_address(self.health_address, "--health-address", offset=self.number),
            drain_seconds=self.drain_seconds,
        )

    def command_line(self, number: int) -> list[str]:
        """The arguments of one process of several."""
        named = {
            "--task-queue": self.task_queue,
            "--until-closed": self.until_closed,
            "--deployment-name": self.deployment_name,
            "--build-id": self.build_id,
            "--metrics-address": self.metrics_address,
            "--health-address": self.health_address,
        }
        arguments = ["--concurrency", str(self.concurrency), "--drain-seconds", str(self.drain_seconds)]
        arguments += ["--number", str(number)]
        for flag, value in named.items():
            arguments += [flag, value] if value else []
        return [*arguments, "--private"] if self.private else arguments
