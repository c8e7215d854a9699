"""Opening, finding again and closing a sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Any

import pytest
from environment_providers import ProviderUnderTest, pid_written_to, runs_inside

from agentcompass.contracts import (
    Environment,
    EnvironmentHandle,
    EnvironmentLostError,
    EnvironmentSession,
    NetworkPolicy,
)


async def test_opening_an_id_twice_gives_the_same_sandbox(
    provider: ProviderUnderTest, environment: Environment[Any], session: EnvironmentSession
) -> None:
    await session.write("kept.txt", b"from the first opening")
    again = await environment.open(provider.open_request(session.handle.id))
    assert again.handle == session.handle
    assert await again.read("kept.txt") == b"from the first opening"


async def test_two_ids_are_two_sandboxes(
    provider: ProviderUnderTest, environment: Environment[Any], session: EnvironmentSession
) -> None:
    other = await environment.open(provider.open_request())
    try:
        await session.write("mine.txt", b"1")
        with pytest.raises(FileNotFoundError):
            await other.read("mine.txt")
    finally:
        await environment.close(other.handle)


async def test_the_handle_holds_no_variable_of_the_environment(
    provider: ProviderUnderTest, environment: Environment[Any]
) -> None:
    request = provider.open_request(env_variables={"SERVICE_PASSWORD": "canary-5f1d"})
    opened = await environment.open(request)
    try:
        assert "canary-5f1d" not in opened.handle.model_dump_json()
    finally:
        await environment.close(opened.handle)


async def test_variables_of_the_environment_reach_commands_after_attach(
    provider: ProviderUnderTest, environment: Environment[Any]
) -> None:
    opened = await environment.open(provider.open_request(env_variables={"FLAVOUR": "sweet & sour"}))
    try:
        attached = await provider.make().attach(opened.handle)
        assert (await attached.exec('printf %s "$FLAVOUR"')).stdout.text == "sweet & sour"
    finally:
        await environment.close(opened.handle)


async def test_another_process_attaches_by_the_handle(
    provider: ProviderUnderTest, session: EnvironmentSession
) -> None:
    await session.write("note.txt", b"for the other one")
    answer = await provider.in_other_process(session.handle, "execute", "cat note.txt")
    assert answer == {"returncode": 0, "stdout": "for the other one"}


async def test_attaching_to_a_closed_sandbox_says_that_it_is_lost(
    environment: Environment[Any], session: EnvironmentSession
) -> None:
    await environment.close(session.handle)
    with pytest.raises(EnvironmentLostError):
        await environment.attach(session.handle)


async def test_a_session_whose_sandbox_was_closed_says_that_it_is_lost(
    environment: Environment[Any], session: EnvironmentSession
) -> None:
    await environment.close(session.handle)
    with pytest.raises(EnvironmentLostError):
        await session.exec("true")


async def test_closing_twice_is_as_good_as_once(
    environment: Environment[Any], session: EnvironmentSession
) -> None:
    await environment.close(session.handle)
    await environment.close(session.handle)


async def test_closing_from_another_process_needs_only_the_handle(
    provider: ProviderUnderTest, environment: Environment[Any], session: EnvironmentSession
) -> None:
    await provider.in_other_process(session.handle, "close")
    with pytest.raises(EnvironmentLostError):
        await environment.attach(session.handle)


async def test_a_closed_id_can_be_opened_anew_and_is_empty(
    provider: ProviderUnderTest, environment: Environment[Any], session: EnvironmentSession
) -> None:
    await session.write("old.txt", b"old")
    await environment.close(session.handle)
    again = await environment.open(provider.open_request(session.handle.id))
    with pytest.raises(FileNotFoundError):
        await again.read("old.txt")


async def test_closing_ends_what_runs_in_the_sandbox_and_nothing_else(
    provider: ProviderUnderTest,
    environment: Environment[Any],
    session: EnvironmentSession,
    innocent: object,
) -> None:
    other = await environment.open(provider.open_request())
    try:
        await session.start_process("agent", "exec sleep 600")
        await session.exec("sleep 600 >/dev/null 2>&1 &")
        await other.exec("sleep 600 >/dev/null 2>&1 & echo $! > pid")
        pid = await pid_written_to(other, "pid")
        await environment.close(session.handle)
        assert await runs_inside(other, pid)
    finally:
        await environment.close(other.handle)


async def test_closing_ends_a_command_that_somebody_waits_for(
    environment: Environment[Any], session: EnvironmentSession
) -> None:
    running = asyncio.create_task(session.exec("echo $$ > pid; exec sleep 600"))
    await pid_written_to(session, "pid")
    await environment.close(session.handle)
    # Whether the end of the command or that of the sandbox is seen first is left open.
    with contextlib.suppress(EnvironmentLostError):
        assert not (await asyncio.wait_for(running, 30)).ok


async def test_sandboxes_are_listed_by_label_until_they_are_closed(
    provider: ProviderUnderTest, environment: Environment[Any]
) -> None:
    launch = f"listing {uuid.uuid4().hex}"
    labels = {"launch": launch, "task": "Aufgabe ä/1", "expiry": "1790000000"}
    opened = await environment.open(provider.open_request(labels=labels))
    try:
        found = await environment.list_environments({"launch": launch, "task": "Aufgabe ä/1"})
        assert [(record.handle, record.labels) for record in found] == [(opened.handle, labels)]
        assert await environment.list_environments({"launch": launch, "task": "other"}) == []
    finally:
        await environment.close(opened.handle)
    assert await environment.list_environments({"launch": launch}) == []


async def test_closing_needs_no_more_than_the_id_as_after_an_opening_that_was_cut_off(
    environment: Environment[Any], session: EnvironmentSession
) -> None:
    await environment.close(EnvironmentHandle(provider=session.handle.provider, id=session.handle.id))
    with pytest.raises(EnvironmentLostError):
        await environment.attach(session.handle)


async def test_closing_an_id_that_was_never_opened_does_nothing(
    environment: Environment[Any], session: EnvironmentSession
) -> None:
    await environment.close(EnvironmentHandle(provider=session.handle.provider, id="ac-never-opened-a1-e1"))
    assert (await session.exec("true")).ok


async def test_what_is_listed_can_be_closed_by_whoever_lists_it(
    provider: ProviderUnderTest, environment: Environment[Any]
) -> None:
    launch = f"releasing {uuid.uuid4().hex}"
    opened = await environment.open(provider.open_request(labels={"launch": launch}))
    for record in await provider.make().list_environments({"launch": launch}):
        await environment.close(record.handle)
    with pytest.raises(EnvironmentLostError):
        await environment.attach(opened.handle)


async def test_a_network_policy_switches_and_the_sandbox_goes_on(
    environment: Environment[Any], session: EnvironmentSession
) -> None:
    if not environment.capabilities.switches_network:
        pytest.skip("this provider cannot switch")
    await session.start_process("agent", "echo on; exec sleep 600")
    for mode in environment.capabilities.network_modes:
        await session.set_network_policy(NetworkPolicy(network_mode=mode))
        assert (await session.exec("echo on")).stdout.text == "on\n"
    status = await session.process_status("agent")
    assert status is not None and status.running


async def test_an_endpoint_is_a_url_or_nothing(session: EnvironmentSession) -> None:
    endpoint = await session.endpoint(8080)
    assert endpoint is None or endpoint.startswith(("http://", "https://"))


async def test_a_renewed_lease_is_told_by_the_provider(
    provider: ProviderUnderTest, environment: Environment[Any], session: EnvironmentSession
) -> None:
    """Optional for providers; one that renews tells the new end in its list, whoever asks."""
    await environment.renew(session.handle, 4_000_000_000.0)
    [record] = [
        item for item in await provider.make().list_environments() if item.handle.id == session.handle.id
    ]
    assert record.expires_at in (None, 4_000_000_000.0)


async def test_a_lease_is_not_renewed_of_what_is_gone(
    provider: ProviderUnderTest, environment: Environment[Any], session: EnvironmentSession
) -> None:
    await environment.close(session.handle)
    with contextlib.suppress(EnvironmentLostError):
        await environment.renew(session.handle, 4_000_000_000.0)
    assert session.handle.id not in [item.handle.id for item in await environment.list_environments()]
