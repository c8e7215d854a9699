"""The worker process of the floor: the product's settings, none of its activities.

``python floor_worker.py ADDRESS NAMESPACE QUEUE WINDOW``; SIGTERM ends it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

from floor_workflows import EmptyAttempt, FloorParent
from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from agentcompass.workflows.runner import PASSTHROUGH


async def serve(address: str, namespace: str, queue: str, window: int) -> None:
    """Serve until SIGTERM."""
    client = await Client.connect(address, namespace=namespace)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    with ThreadPoolExecutor(8) as threads:
        async with Worker(
            client,
            task_queue=queue,
            workflows=[FloorParent, EmptyAttempt],
            workflow_task_executor=threads,
            workflow_runner=SandboxedWorkflowRunner(
                restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSTHROUGH)
            ),
            max_cached_workflows=4 * window + 100,
        ):
            await stopped.wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
    os._exit(0)  # the SDK's threads may abort an interpreter that shuts down
