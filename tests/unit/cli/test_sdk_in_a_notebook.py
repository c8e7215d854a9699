"""Functions for code without an event loop, called where one runs."""

from __future__ import annotations

import pytest

from agentcompass import run_evaluation


async def test_run_evaluation_names_the_function_for_a_running_event_loop() -> None:
    with pytest.raises(RuntimeError, match="use `await async_run_evaluation"):
        run_evaluation(benchmark="humaneval", harness="oracle", model="none")
