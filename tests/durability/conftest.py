"""What is killed here and what takes over are interpreters of their own, as users have them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from warm_start import COLD_VARIABLE


@pytest.fixture(scope="module", autouse=True)
def cold_starts() -> Iterator[None]:
    """Forks of one process would share the order of their sets, and a history replayed by another would never differ."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(COLD_VARIABLE, "1")
        yield
