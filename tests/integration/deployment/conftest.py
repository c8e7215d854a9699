"""A cluster of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster


@pytest.fixture
def cluster(embedded_home: Path, tmp_path: Path) -> Iterator[Cluster]:
    """The session's server as a cluster, with a task queue of the test's own."""
    cluster = Cluster(embedded_home, tmp_path, f"fleet-{uuid.uuid4().hex[:8]}")
    yield cluster
    cluster.command_line.end_all()
