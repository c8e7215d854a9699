"""What a container may do, and as whom."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from docker_engine import NON_ROOT_IMAGE
from pydantic import ValidationError

from agentcompass.plugins.environments.docker import DockerParams


async def test_a_container_has_few_rights_and_cannot_gain_any(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening() as session:
        status = (await session.exec("cat /proc/self/status")).stdout.text
        facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert facts["NoNewPrivs"] == "1"
        assert facts["Seccomp"] == "2"
        capabilities = int(facts["CapBnd"], 16)
        for number in (
            12,
            13,
            16,
            19,
            21,
            27,
        ):  # NET_ADMIN, NET_RAW, SYS_MODULE, SYS_PTRACE, SYS_ADMIN, MKNOD
            assert not capabilities & 1 << number


async def test_the_engine_s_socket_is_not_inside(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening() as session:
        result = await session.exec(
            "ls /var/run/docker.sock /run/docker.sock; grep -c docker.sock /proc/mounts"
        )
        assert result.stdout.text.strip() == "0"


@pytest.mark.parametrize(
    "source", ["/", "/var/run/docker.sock", "/run", "/proc/1", "/etc", "relative", "/srv/../etc"]
)
def test_mounts_that_would_give_the_machine_away_are_refused(source: str) -> None:
    with pytest.raises(ValidationError):
        DockerParams.model_validate({"mounts": [{"source": source, "target": "/data"}]})


@pytest.mark.parametrize("name", ["SYS_ADMIN", "cap_sys_admin", "ALL", "NET_ADMIN", "NET_RAW"])
def test_capabilities_that_lead_out_are_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="out of its sandbox"):
        DockerParams(add_capabilities=[name])


async def test_a_mount_is_there_and_cannot_be_written_to(opening, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "data.txt").write_text("given")
    async with opening({"mounts": [{"source": str(tmp_path), "target": "/data"}]}) as session:
        assert await session.read("/data/data.txt") == b"given"
        assert not (await session.exec("echo x > /data/new.txt")).ok
    assert os.listdir(tmp_path) == ["data.txt"]


async def test_commands_run_as_the_image_s_user_in_its_folder_and_files_are_theirs(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening({"image": NON_ROOT_IMAGE}) as session:
        assert session.workdir == "/home/agent"
        assert (await session.exec("id -un")).stdout.text == "agent\n"
        assert (await session.exec("id -un", user="root")).stdout.text == "root\n"
        await session.write("made/note.txt", b"one")
        assert (await session.exec("echo two >> made/note.txt && touch made/other")).ok
        await session.start_process("p", "id -un; sleep 600")
        assert await session.end_all_processes() >= 1


async def test_an_unknown_user_is_named(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening() as session:
        with pytest.raises(Exception, match="nobody-here"):
            await session.exec("true", user="nobody-here")


async def test_a_read_only_sandbox_has_a_work_directory_and_tmp(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening({"read_only": True}) as session:
        assert not (await session.exec("echo x > /etc/new")).ok
        assert (await session.exec("echo x > here && echo y > /tmp/there")).ok
        await session.write("written.txt", b"from outside")
        assert (await session.exec("cat written.txt")).stdout.text == "from outside"


async def test_nothing_inside_ends_the_sandbox_itself(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening() as session:
        await session.exec("kill -9 -1; kill -9 1; kill -TERM 1")
        await session.exec("killall -9 sleep; killall -9 sh")
        assert (await session.exec("echo still here")).stdout.text == "still here\n"


async def test_orphans_are_reaped(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening() as session:
        await session.exec("for n in 1 2 3 4 5; do (sleep 0.1 &); done; sleep 0.5")
        result = await session.exec("cat /proc/[0-9]*/stat | grep -c ') Z '")
        assert result.stdout.text == "0\n"


async def test_a_command_longer_than_an_argument_may_be_runs(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening() as session:
        result = await session.exec(f"echo '{'x' * 300_000}' | wc -c")
        assert result.stdout.text.strip() == "300001"
