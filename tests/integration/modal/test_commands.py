"""What the contract suite does not ask of commands in sandboxes at Modal."""

from __future__ import annotations

import asyncio
import io
import shutil

import pytest
from environment_providers import eventually, pid_written_to, runs_inside
from fake_modal import FakeModal

from agentcompass.contracts import EnvironmentLostError
from agentcompass.plugins.environments.remote import commands


@pytest.fixture
async def session(provider, request_for):  # type: ignore[no-untyped-def]
    """A sandbox of the test's own."""
    environment = provider()
    opened = await environment.open(request_for())
    yield opened
    await environment.close(opened.handle)


async def test_a_command_whose_worker_died_is_ended_by_its_sandbox(session, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(commands, "_LEASE_LOOKS", 8)
    monkeypatch.setattr(commands, "_LONGEST_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(commands._Execution, "stop", nothing)
    running = asyncio.create_task(session.exec("echo $$ > pid; exec sleep 600", timeout_seconds=600))
    pid = await pid_written_to(session, "pid")
    running.cancel()  # as abruptly as if this process had gone
    with pytest.raises(asyncio.CancelledError):
        await running

    async def ended() -> bool:
        return not await runs_inside(session, pid)

    await eventually(ended, "the command is ended")


async def test_what_the_sandbox_lives_by_outlives_the_end_of_all_processes(session) -> None:  # type: ignore[no-untyped-def]
    await session.start_process("p", "exec sleep 600")
    await session.exec("(setsid sleep 617 >/dev/null 2>&1 &)")
    assert await session.end_all_processes() >= 2
    assert not (await session.process_status("p")).running
    assert (await session.exec("echo on")).stdout.text == "on\n"


async def test_a_process_that_is_not_root_s_is_ended_whatever_mark_it_carries(session) -> None:  # type: ignore[no-untyped-def]
    forged = "AGENTCOMPASS_COMMAND=sandbox setsid sleep 617 >/dev/null 2>&1 & echo $! > /var/tmp/pid"
    await session.exec(forged, cwd="/", user="nobody")
    pid = await pid_written_to(session, "/var/tmp/pid")
    await session.end_all_processes()
    assert not await runs_inside(session, pid)


async def test_orphans_that_have_ended_do_not_pile_up(session) -> None:  # type: ignore[no-untyped-def]
    await session.exec("for i in 1 2 3; do (true & exec sleep 0.01) & done; wait")

    async def none() -> bool:
        states = "for f in /proc/[0-9]*/stat; do sed 's/.*) //; s/ .*//' $f; done 2>/dev/null"
        return "Z" not in (await session.exec(states)).stdout.text

    await eventually(none, "no process is a zombie")


async def test_variables_that_a_shell_keeps_for_itself_reach_commands(session) -> None:  # type: ignore[no-untyped-def]
    result = await session.exec(["env"], env={"UID": "7", "ODD_ONE": 'it\'s "quoted"\n$HOME'})
    assert "UID=7\n" in result.stdout.text
    assert 'ODD_ONE=it\'s "quoted"\n$HOME\n' in result.stdout.text


async def test_a_command_longer_than_an_argument_may_be_is_run(session) -> None:  # type: ignore[no-untyped-def]
    result = await session.exec("true " + "x" * 200_000 + "; echo $# done")
    assert result.stdout.text == "0 done\n"


async def test_a_file_larger_than_a_message_may_be_is_written(session) -> None:  # type: ignore[no-untyped-def]
    data = bytes(range(256)) * 20_000
    await session.exec("ln -s elsewhere big")
    await session.write("big", data, mode=0o600)
    assert await session.read("big") == data
    assert (await session.exec("stat -c %a big; ls elsewhere")).stdout.text == "600\n"


async def test_a_file_that_is_too_large_is_read_no_further(session) -> None:  # type: ignore[no-untyped-def]
    await session.exec("head -c 3000000 /dev/zero > big")
    with pytest.raises(ValueError, match="larger than 100000 bytes"):
        await session.read("big", max_bytes=100_000)
    assert (await session.exec("echo on")).stdout.text == "on\n"


@pytest.mark.parametrize("size", [100_000, 5_000_000])
async def test_a_full_disk_is_told_as_what_it_is(session, size) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(OSError, match=r"/dev/full cannot be written: .*No space left"):
        await asyncio.to_thread(session._shell.channel.send, "/dev/full", io.BytesIO(b"x" * size))


async def test_a_sandbox_that_reaches_its_lifetime_is_lost(modal: FakeModal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    opened = await environment.open(request_for())
    modal.end_sandbox(opened.handle.data["sandbox"])
    with pytest.raises(EnvironmentLostError, match="has ended with status 124"):
        await opened.exec("true")
    with pytest.raises(EnvironmentLostError, match="has ended with status 124"):
        await environment.attach(opened.handle)
    with pytest.raises(EnvironmentLostError, match="has ended with status 124"):
        await opened.read("file")
    await environment.close(opened.handle)


async def test_a_sandbox_that_is_removed_under_a_running_command_is_lost(  # type: ignore[no-untyped-def]
    modal: FakeModal, provider, request_for
) -> None:
    environment = provider()
    opened = await environment.open(request_for())
    running = asyncio.create_task(opened.exec("echo $$ > pid; exec sleep 600"))
    await pid_written_to(opened, "pid")
    modal.end_sandbox(opened.handle.data["sandbox"])
    with pytest.raises(EnvironmentLostError):
        await asyncio.wait_for(running, 60)


@pytest.mark.skipif(shutil.which("busybox") is None, reason="needs busybox")
async def test_the_tools_of_busybox_are_enough(provider, request_for, tmp_path) -> None:  # type: ignore[no-untyped-def]
    environment = provider(image="busybox")
    session = await environment.open(request_for())
    try:
        source = tmp_path / "source"
        deep = source / ("long name " * 12) / "sub"
        deep.mkdir(parents=True)
        (deep / "ümläut").write_bytes(b"\xff")
        await session.upload(source, "tree")
        await session.download("tree", tmp_path / "back")
        assert (tmp_path / "back" / ("long name " * 12) / "sub" / "ümläut").read_bytes() == b"\xff"
        result = await session.exec("echo $$ > pid; echo out; exec sleep 600", timeout_seconds=1)
        assert result.timed_out and result.stdout.text == "out\n"
        await session.start_process("p", "echo here; exec sleep 600")
        assert await session.end_all_processes() >= 1
        assert await session.read_process_output("p", "stdout", 0) == b"here\n"
    finally:
        await environment.close(session.handle)


async def nothing(self: object) -> None:
    """Instead of ending a command."""


async def test_commands_run_as_the_user_of_the_parameter_unless_they_name_one(provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider(user="nobody")
    opened = await environment.open(request_for())
    try:
        again = await environment.attach(opened.handle)
        for session in (opened, again):
            assert (await session.exec("id -un; exec true", cwd="/")).stdout.text == "nobody\n"
        assert (await again.exec("id -un", cwd="/", user="root")).stdout.text == "root\n"
    finally:
        await environment.close(opened.handle)
