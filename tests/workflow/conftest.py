"""A time-skipping server for each file of workflow tests."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from workflow_server import time_skipping_server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The server's client belongs to the loop of the session."""
    for item in items:
        if "tests/workflow/" in item.path.as_posix() and inspect.iscoroutinefunction(
            getattr(item, "function", None)
        ):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """The server; time stands still but while a test waits for a result.

    One for a file, because an activity that a workflow left behind keeps time from skipping for good.
    """
    async with time_skipping_server() as environment:
        yield environment


@pytest.fixture
def client(server: WorkflowEnvironment) -> Client:
    """A client of the server."""
    return server.client
