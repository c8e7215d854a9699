"""Hooks that do not end when they have to: their attempt goes on without them."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from agentcompass.activities import hook_calls
from agentcompass.activities.hook_calls import abandoned_hooks, call_hook
from agentcompass.contracts.component import blocking

KINDS = pytest.mark.parametrize("kind", [lambda hook: hook, blocking], ids=["async", "blocking"])
Kind = Callable[[Any], Any]
run_label: ContextVar[str] = ContextVar("run_label", default="none")


@KINDS
async def test_what_a_hook_returns_comes_back_and_its_surroundings_go_along(kind: Kind) -> None:
    async def hook(number: int) -> str:
        await asyncio.sleep(0)
        return f"{run_label.get()} {number}"

    run_label.set("run-1")
    assert await call_hook(kind(hook), 3) == "run-1 3"


@KINDS
@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), asyncio.CancelledError(), TimeoutError("y")]
)
async def test_what_a_hook_raises_is_raised_where_it_was_called(kind: Kind, error: BaseException) -> None:
    async def hook() -> None:
        raise error

    with pytest.raises(type(error)):
        await call_hook(kind(hook))


@KINDS
async def test_a_hook_that_awaits_is_cancelled_at_its_budget(kind: Kind) -> None:
    ended = threading.Event()

    async def hook() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await call_hook(kind(hook), abandoned=lambda name: pytest.fail(f"{name} was abandoned"))
    assert ended.is_set()


async def test_a_thread_that_hangs_is_left_behind_and_said_so() -> None:
    let_go, told = threading.Event(), list[str]()

    @blocking
    async def evaluate() -> str:
        let_go.wait()
        return "too late"

    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await call_hook(evaluate, abandoned=told.append, patience=0.05)
        assert told == ["evaluate"]
    finally:
        let_go.set()


async def test_a_coroutine_that_ignores_its_cancellation_is_left_behind() -> None:
    let_go, told = asyncio.Event(), list[str]()

    async def execute_task() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await call_hook(execute_task, abandoned=told.append, patience=0.05)
    assert told == ["execute_task"]
    let_go.set()


async def test_many_hanging_threads_leave_room_for_everything_else() -> None:
    """More than the pool of threads has, which reads and writes all files."""
    let_go = threading.Event()

    @blocking
    async def hang() -> None:
        let_go.wait()

    hanging = [asyncio.create_task(call_hook(hang, abandoned=lambda _: None, patience=0)) for _ in range(50)]
    try:
        assert await asyncio.to_thread(lambda: "still served") == "still served"
    finally:
        let_go.set()
        await asyncio.gather(*hanging)


async def test_with_too_many_abandoned_threads_no_other_one_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_go = threading.Event()
    before = abandoned_hooks()
    monkeypatch.setattr(hook_calls, "MOST_ABANDONED", before + 2)

    @blocking
    async def hang() -> str:
        let_go.wait()
        return "ended"

    try:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await call_hook(hang, patience=0)
        assert abandoned_hooks() == before + 2
        with pytest.raises(ApplicationError, match=f"{before + 2} hooks of worker process") as refused:
            await call_hook(hang)
        assert not refused.value.non_retryable  # elsewhere, or later, it can be started
        assert await call_hook(hang_not) == "still served"
    finally:
        let_go.set()
    while abandoned_hooks() > before:  # noqa: ASYNC110  # threads announce no end
        await asyncio.sleep(0.01)
    assert await call_hook(hang) == "ended"


async def hang_not() -> str:
    return "still served"


def test_a_thread_that_hangs_does_not_keep_its_process() -> None:
    import subprocess

    script = (
        "import asyncio, threading\n"
        "from agentcompass.activities.hook_calls import call_hook\n"
        "from agentcompass.contracts.component import blocking\n"
        "@blocking\n"
        "async def hang(): threading.Event().wait()\n"
        "async def main():\n"
        "    try:\n"
        "        async with asyncio.timeout(0.05):\n"
        "            await call_hook(hang, patience=0)\n"
        "    except TimeoutError: print('went on')\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "went on\n")
