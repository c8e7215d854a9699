"""What the contract suite does not ask of commands in remote sandboxes."""

from __future__ import annotations

import asyncio
import shutil

import pytest
from environment_providers import eventually, pid_written_to, runs_inside
from fake_daytona import FakeDaytona

from agentcompass.contracts import EnvironmentLostError, ProcessStatus
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


async def test_a_command_that_is_cancelled_at_once_leaves_nothing(session) -> None:  # type: ignore[no-untyped-def]
    for delay in (0.0, 0.02, 0.1):
        running = asyncio.create_task(session.exec("exec sleep 617"))
        await asyncio.sleep(delay)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    found = await session.exec(
        "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f; echo; done | grep -c '^sleep 617'"
    )
    assert found.stdout.text == "0\n"


async def test_the_status_file_of_a_process_may_be_spoiled_from_inside(session) -> None:  # type: ignore[no-untyped-def]
    await session.start_process("p", "exit 3")
    await session.exec("until [ -e /var/tmp/.agentcompass/p/p-p/status ]; do sleep 0.05; done")
    await session.exec("echo '$(reboot) x' > /var/tmp/.agentcompass/p/p-p/status")
    status: ProcessStatus = await session.process_status("p")
    assert (status.running, status.returncode) == (False, 1)


async def test_an_agent_that_removes_our_records_gets_a_result_and_nothing_goes_on(session) -> None:  # type: ignore[no-untyped-def]
    command = "echo $$ > pid; rm -rf /var/tmp/.agentcompass; exec sleep 600"
    result = await session.exec(command, timeout_seconds=60)
    assert not result.ok and not result.timed_out
    assert not await runs_inside(session, await pid_written_to(session, "pid"))


async def test_a_root_sandbox_runs_commands_as_another_user(session) -> None:  # type: ignore[no-untyped-def]
    result = await session.exec("id -un; exec true", cwd="/", user="nobody", timeout_seconds=60)
    assert (result.returncode, result.stdout.text) == (0, "nobody\n")
    with pytest.raises(OSError, match="no user no-such-user"):
        await session.exec("true", user="no-such-user")


async def test_a_command_longer_than_an_argument_may_be_is_run(session) -> None:  # type: ignore[no-untyped-def]
    result = await session.exec("true " + "x" * 200_000 + "; echo $# done")
    assert result.stdout.text == "0 done\n"


async def test_a_file_larger_than_a_variable_may_be_is_written(session) -> None:  # type: ignore[no-untyped-def]
    data = bytes(range(256)) * 1000
    await session.exec("ln -s elsewhere big")
    await session.write("big", data, mode=0o600)
    assert await session.read("big") == data
    assert (await session.exec("stat -c %a big; ls elsewhere")).stdout.text == "600\n"


async def test_a_port_has_a_preview_link(session) -> None:  # type: ignore[no-untyped-def]
    assert (await session.endpoint(8080)).startswith("https://8080-")


async def test_a_sandbox_that_is_stopped_from_outside_is_lost(  # type: ignore[no-untyped-def]
    daytona: FakeDaytona, provider, request_for
) -> None:
    environment = provider()
    opened = await environment.open(request_for())
    daytona.fail(stopped=opened.handle.data["sandbox"])
    with pytest.raises(EnvironmentLostError, match="its sandbox is stopped"):
        await opened.exec("true")
    with pytest.raises(EnvironmentLostError, match="its sandbox is stopped"):
        await environment.attach(opened.handle)
    await environment.close(opened.handle)


@pytest.mark.skipif(shutil.which("busybox") is None, reason="needs busybox")
async def test_the_tools_of_busybox_are_enough(provider, request_for, tmp_path) -> None:  # type: ignore[no-untyped-def]
    environment = provider(snapshot="busybox")
    session = await environment.open(request_for())
    try:
        source = tmp_path / "source"
        deep = source / ("long name " * 12) / "sub"
        deep.mkdir(parents=True)
        (deep / "ümläut").write_bytes(b"\xff")
        (source / "sub").mkdir()
        (source / "sub" / "file").write_text("uploaded")
        await session.exec("mkdir tree elsewhere; ln -s ../elsewhere tree/sub")
        await session.upload(source, "tree")
        assert (await session.exec("ls elsewhere; cat tree/sub/file")).stdout.text == "uploaded"
        await session.download("tree", tmp_path / "back")
        assert (tmp_path / "back" / ("long name " * 12) / "sub" / "ümläut").read_bytes() == b"\xff"
        result = await session.exec("echo $$ > pid; echo out; exec sleep 600", timeout_seconds=1)
        assert result.timed_out and result.stdout.text == "out\n"
        await session.start_process("p", "echo here; exec sleep 600")
        assert await session.end_all_processes() >= 1
        assert await session.read_process_output("p", "stdout", 0) == b"here\n"
        status = await session.process_status("p")
        assert not status.running
    finally:
        await environment.close(session.handle)


async def nothing(self: object) -> None:
    """Instead of ending a command."""
