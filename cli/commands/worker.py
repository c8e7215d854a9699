"""``agentcompass worker``: serve a task queue, with one process or several."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_QUEUE = "agentcompass"
DEFAULT_CONCURRENCY = 64


def worker(
    task_queue: Annotated[
        str, typer.Option("--task-queue", metavar="NAME", help="Queue that this worker serves.")
    ] = DEFAULT_QUEUE,
    concurrency: Annotated[
        int,
        typer.Option(
            "--concurrency",
            metavar="N",
            min=1,
            help="Activities at a time; more than the attempts of a launch.",
        ),
    ] = DEFAULT_CONCURRENCY,
    workers: Annotated[
        int,
        typer.Option("--workers", metavar="N", min=1, help="Processes to run, each with this concurrency."),
    ] = 1,
    until_closed: Annotated[
        str | None, typer.Option("--until-closed", metavar="LAUNCH", help="Leave when this launch is over.")
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", hidden=True, help="No other machine serves this queue.")
    ] = False,
) -> int:
    """Carry out the work of launches. SIGTERM drains: running work is handed to other workers.

    Which server it connects to is Temporal's standard client configuration (TEMPORAL_ADDRESS, …);
    without one it is the local server.
    """
    if not task_queue.strip():
        from ...contracts.errors import UsageError

        raise UsageError("--task-queue: the value is empty")
    if workers > 1:
        from ..worker_processes import run_processes

        arguments = ["--task-queue", task_queue, "--concurrency", str(concurrency)]
        arguments += ["--until-closed", until_closed] if until_closed else []
        arguments += ["--private"] if private else []
        return run_processes(arguments, workers)

    import asyncio

    from ...worker import WorkerOptions, run_worker

    options = WorkerOptions(
        task_queue=task_queue, concurrency=concurrency, private=private, until_closed=until_closed or ""
    )
    asyncio.run(run_worker(options))
    return 0
