"""Running a command to its end."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest
from environment_providers import eventually

from agentcompass.contracts import EnvironmentSession


async def test_both_streams_and_the_exit_status_are_told_apart(session: EnvironmentSession) -> None:
    result = await session.exec("echo out; echo err >&2; exit 7")
    assert (result.returncode, result.stdout.text, result.stderr.text) == (7, "out\n", "err\n")
    assert not result.ok


async def test_a_sequence_is_executed_without_a_shell(session: EnvironmentSession) -> None:
    result = await session.exec(["printf", "%s|", "a b", "$HOME", "*"])
    assert result.stdout.text == "a b|$HOME|*|"


async def test_bytes_that_are_no_utf8_survive(session: EnvironmentSession) -> None:
    result = await session.exec(r"printf 'caf\351\000\377'")
    assert result.stdout.head == b"caf\xe9\x00\xff"
    assert result.stdout.text == "caf�\x00�"


async def test_a_program_that_does_not_exist_is_a_result(session: EnvironmentSession) -> None:
    result = await session.exec(["no-such-program-c0ffee"])
    assert result.returncode in (126, 127)


async def test_a_folder_that_does_not_exist_is_no_success(session: EnvironmentSession) -> None:
    assert not (await session.exec("true", cwd="missing")).ok


async def test_a_command_gets_its_standard_input_whole(session: EnvironmentSession) -> None:
    data = bytes(range(256)) * 4096
    assert (await session.exec("cat > copy", stdin=data)).ok
    assert await session.read("copy") == data


async def test_without_input_a_reading_command_sees_the_end_at_once(session: EnvironmentSession) -> None:
    assert (await session.exec("cat", timeout_seconds=30)).returncode == 0


async def test_variables_are_added_for_one_command_only(session: EnvironmentSession) -> None:
    script = 'printf %s "${GIVEN-unset}"'
    assert (await session.exec(script, env={"GIVEN": "a 'b' $c\n"})).stdout.text == "a 'b' $c\n"
    assert (await session.exec(script)).stdout.text == "unset"


async def test_variables_of_a_session_hold_for_its_commands_and_processes(
    session: EnvironmentSession,
) -> None:
    session.add_variables({"A": "session", "B": "session"})
    script = 'printf "%s %s" "$A" "$B" | tee seen'
    assert (await session.exec(script, env={"B": "call"})).stdout.text == "session call"
    await session.start_process("p", "printf %s $A > seen-by-process")
    await eventually(lambda: holds(session, "seen-by-process", b"session"), "the process has written")


async def test_commands_run_in_the_work_directory_or_where_they_are_told(
    session: EnvironmentSession,
) -> None:
    assert (await session.exec("pwd -P")).stdout.text.strip() == session.workdir
    await session.exec("mkdir -p sub")
    assert (await session.exec("pwd -P", cwd="sub")).stdout.text.strip() == f"{session.workdir}/sub"
    assert (await session.exec("pwd -P", cwd="/")).stdout.text.strip() == "/"


async def test_the_worker_s_variables_do_not_reach_a_command(
    session: EnvironmentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVIDER_API_KEY", "canary-77aa")
    assert "canary-77aa" not in (await session.exec("env")).stdout.text


async def test_a_status_by_signal_is_negative_or_as_a_shell_reports_it(session: EnvironmentSession) -> None:
    assert (await session.exec("kill -9 $$")).returncode in (-9, 137)


async def test_a_hundred_megabytes_of_output_are_not_held_in_memory(session: EnvironmentSession) -> None:
    tracemalloc.start()
    try:
        result = await session.exec("printf start; head -c 100000000 /dev/zero; printf end")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.ok
    assert result.stdout.total_bytes == 100_000_008
    assert result.stdout.head.startswith(b"start\0") and result.stdout.tail.endswith(b"\0end")
    assert result.stdout.truncated and "bytes left out" in result.stdout.text
    assert peak < 16_000_000
    size = await session.exec(f"wc -c < '{result.stdout.path}'")
    assert int(size.stdout.text) == 100_000_008


async def test_much_output_on_both_streams_does_not_block(session: EnvironmentSession) -> None:
    script = "i=0; while [ $i -lt 2000 ]; do printf '%0100d' 1; printf '%0100d' 2 >&2; i=$((i+1)); done"
    result = await session.exec(script, timeout_seconds=60)
    assert (result.stdout.total_bytes, result.stderr.total_bytes) == (200_000, 200_000)
    assert result.stdout.head + result.stdout.tail[:0] == (b"0" * 99 + b"1") * 655 + b"0" * 36


async def test_a_background_process_does_not_keep_its_command_from_ending(
    session: EnvironmentSession,
) -> None:
    result = await session.exec("sleep 600 & echo done", timeout_seconds=30)
    assert (result.returncode, result.stdout.text) == (0, "done\n")


async def test_many_commands_run_at_once(session: EnvironmentSession) -> None:
    results = await asyncio.gather(*(session.exec(f"sleep 0.2; echo {n}") for n in range(20)))
    assert [result.stdout.text for result in results] == [f"{n}\n" for n in range(20)]


async def holds(session: EnvironmentSession, path: str, content: bytes) -> bool:
    """Whether a file is there and has that content."""
    try:
        return await session.read(path) == content
    except FileNotFoundError:
        return False
