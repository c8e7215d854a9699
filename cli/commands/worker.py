"""``agentcompass worker``: serve a task queue, with one process or several."""

from __future__ import annotations

from ..flags import takes_flags
from .worker_flags import WorkerFlags


@takes_flags(WorkerFlags)
def worker(flags: WorkerFlags) -> int:
    """Carry out the work of launches. SIGTERM drains: running work is handed to other workers.

    Which server it connects to is Temporal's standard client configuration (TEMPORAL_ADDRESS, …);
    without one it is the local server. Traces go where OpenTelemetry's variables say
    (OTEL_EXPORTER_OTLP_ENDPOINT), payloads are encrypted with AGENTCOMPASS_PAYLOAD_KEY.
    """
    options = flags.options()
    if flags.workers > 1:
        from ..worker_processes import run_processes

        return run_processes([flags.command_line(index) for index in range(flags.workers)])

    import asyncio

    from ...worker import run_worker

    # Not asyncio.run: at the end that waits for every task, and for every thread of its pool. A hook that was left
    # to itself ends neither. The process leaves without them.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(run_worker(options))
    return 0
