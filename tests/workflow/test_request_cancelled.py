"""One request of a launch is cancelled in the very moment in which its attempts end, on a real server.

The time-skipping one forgets a workflow task when an activity completes while it is being cancelled.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from shared_slots import Requests, named, standing
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from workflow_server import real_server, stage, until

from agentcompass.contracts.workflows import CANCEL_REQUEST_SIGNAL


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """Instead of the server of the other tests of this folder."""
    async with real_server() as environment:
        yield environment


@pytest.mark.parametrize("which", ["one", "two", "three"])
async def test_cancelling_one_request_leaves_the_others(client: Client, which: str) -> None:
    fakes = Requests(["a", "b"], held="one two")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("one", "two", "three"), task_concurrency=2)
        await until(lambda: standing(fakes, one=2))
        await handle.signal(CANCEL_REQUEST_SIGNAL, args=[which, "not needed"])
        await handle.signal(CANCEL_REQUEST_SIGNAL, args=[which, "twice"])
        await handle.signal(CANCEL_REQUEST_SIGNAL, "unknown")
        for request in ("one", "two"):
            fakes.gate(request).opened.set()
        result = await handle.result()
    states = {item.key: item.status for item in result.requests}
    assert states == {"one": "completed", "two": "completed", "three": "completed", which: "cancelled"}
    assert result.status == "partial_failure"
    [cancelled] = [item for item in result.requests if item.key == which]
    assert cancelled.error == "not needed"
