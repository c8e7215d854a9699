"""A worker whose event loop does not turn ends itself, and says which hook holds it up."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agentcompass.activities.hook_calls import call_hook
from agentcompass.cli.serving import loop_guard
from agentcompass.cli.serving.loop_guard import DEFAULT_LIMIT_SECONDS, guarded_loop, loop_limit
from agentcompass.contracts.errors import ConfigurationError


async def test_a_hook_that_blocks_the_loop_is_named_to_whoever_called_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left = threading.Event()

    async def evaluate() -> None:
        assert left.wait(60)

    heard: list[str] = []
    async with guarded_loop(0.6, left.set):
        await call_hook(evaluate, blocks=lambda: heard.append("blocks"))
    assert heard == ["blocks"]
    assert "the event loop has not turned for 0.6 s, evaluate blocks it" in caplog.text


@pytest.mark.parametrize("how", ["gather", "group", "callback"])
async def test_what_a_hook_started_is_blamed_on_the_hook(how: str, caplog: pytest.LogCaptureFixture) -> None:
    left, ended = threading.Event(), asyncio.Event()

    def block() -> None:
        assert left.wait(60)
        ended.set()

    async def child() -> None:
        block()

    async def evaluate() -> None:
        if how == "gather":
            await asyncio.gather(asyncio.sleep(0), child())
        elif how == "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(child())
        else:
            asyncio.get_running_loop().call_soon(block)
            await ended.wait()

    async with guarded_loop(0.6, left.set):
        await call_hook(evaluate)
    assert "evaluate blocks it" in caplog.text


async def test_what_is_no_hook_is_told_once_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_loop(0.6, lambda: pytest.fail("nobody is to blame")):
        threading.Event().wait(2.5)
        await asyncio.sleep(0)
    assert caplog.text.count("has not turned for 0.6 s, and no hook blocks it") == 1


async def test_a_loop_that_turns_again_while_its_block_is_noted_goes_on() -> None:
    """The note lies on a disk, which may be what hung."""
    noting, turned = threading.Event(), threading.Event()

    async def evaluate() -> None:
        assert noting.wait(60)
        asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, turned.set)

    def note() -> None:
        noting.set()
        assert turned.wait(60)

    async with guarded_loop(0.6, lambda: pytest.fail("it turned again")):
        await call_hook(evaluate, blocks=note)
        await asyncio.sleep(2)


async def test_a_note_that_hangs_does_not_keep_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_guard, "_PATIENCE_SECONDS", 0.05)
    left = threading.Event()

    async def evaluate() -> None:
        assert left.wait(60)

    async with guarded_loop(0.6, left.set):
        await call_hook(evaluate, blocks=left.wait)
    for thread in threading.enumerate():
        if thread.name == "loop guard tells":  # it would write into the log of the next test
            await asyncio.to_thread(thread.join)


async def test_a_loop_that_turns_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_loop(0.6, lambda: pytest.fail("it turned")):
        await asyncio.sleep(2)
    assert caplog.text == ""


async def test_a_hook_in_a_thread_blocks_nothing() -> None:
    from agentcompass.contracts.component import blocking

    @blocking
    async def evaluate() -> None:
        threading.Event().wait(1.5)

    async with guarded_loop(0.6, lambda: pytest.fail("the loop was free")):
        await call_hook(evaluate)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, DEFAULT_LIMIT_SECONDS), ("", DEFAULT_LIMIT_SECONDS), ("0", 0.0), ("7.5", 7.5)],
)
def test_the_limit_is_a_number_of_seconds(text: str | None, seconds: float) -> None:
    assert loop_limit(text) == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_anything_else_is_refused_by_the_name_of_the_variable(text: str) -> None:
    with pytest.raises(ConfigurationError, match="AGENTCOMPASS_LOOP_LIMIT_SECONDS"):
        loop_limit(text)
