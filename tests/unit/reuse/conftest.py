"""Runs to continue."""

from pathlib import Path

import pytest
from reuse_runs import Runs


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)
