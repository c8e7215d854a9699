"""The tests of this folder share the event loop of their server."""

from __future__ import annotations

import inspect

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The server's client belongs to the loop of the session."""
    for item in items:
        if "tests/replay/" in item.path.as_posix() and inspect.iscoroutinefunction(
            getattr(item, "function", None)
        ):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
