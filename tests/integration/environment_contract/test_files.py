"""Reading, writing and copying files."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from agentcompass.contracts import EnvironmentSession


async def test_what_is_written_is_read(session: EnvironmentSession) -> None:
    data = bytes(range(256))
    await session.write("deep/er/file.bin", data)
    assert await session.read("deep/er/file.bin") == data
    assert await session.read(f"{session.workdir}/deep/er/file.bin") == data


async def test_writing_again_replaces_and_sets_the_mode(session: EnvironmentSession) -> None:
    await session.write("run.sh", b"a much longer first version")
    await session.write("run.sh", b"#!/bin/sh\necho ran\n", mode=0o755)
    assert (await session.exec(["./run.sh"])).stdout.text == "ran\n"


async def test_an_absolute_path_is_a_path_of_the_sandbox(session: EnvironmentSession) -> None:
    assert (await session.exec("head -c 5 /etc/passwd")).stdout.head == (await session.read("/etc/passwd"))[
        :5
    ]


async def test_reading_a_missing_file_says_so(session: EnvironmentSession) -> None:
    with pytest.raises(FileNotFoundError):
        await session.read("missing.txt")


async def test_reading_more_than_allowed_is_refused(session: EnvironmentSession) -> None:
    await session.write("file", b"12345")
    assert await session.read("file", max_bytes=5) == b"12345"
    with pytest.raises(ValueError, match="4 bytes"):
        await session.read("file", max_bytes=4)


async def test_a_pipe_in_place_of_a_file_does_not_block_the_reader(session: EnvironmentSession) -> None:
    await session.exec("mkfifo answer.txt")
    with pytest.raises((OSError, ValueError)):
        await session.read("answer.txt", max_bytes=100)


async def test_a_large_file_survives_both_ways(session: EnvironmentSession, tmp_path: Path) -> None:
    source = tmp_path / "large.bin"
    block = hashlib.sha256(b"block").digest() * 32768
    source.write_bytes(block * 48)  # 48 MiB
    await session.upload(source, "in/large.bin")
    await session.download("in/large.bin", tmp_path / "back" / "large.bin")
    with (tmp_path / "back" / "large.bin").open("rb") as stream:
        assert hashlib.file_digest(stream, "sha256").digest() == hashlib.sha256(block * 48).digest()


async def test_a_tree_survives_both_ways_with_its_modes(session: EnvironmentSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "empty").mkdir(parents=True)
    for number in range(500):
        file = source / f"folder {number % 10}" / f"{number}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"content {number}")
    (source / "tool.sh").write_text("#!/bin/sh\n")
    (source / "tool.sh").chmod(0o755)
    (source / "ümläut ☃").write_bytes(b"\xff")
    await session.upload(source, "tree")
    assert (await session.exec("find tree -type f | wc -l")).stdout.text.strip() == "502"
    assert (await session.exec("test -x tree/tool.sh -a -d tree/empty")).ok
    await session.download("tree", tmp_path / "back")
    back = tmp_path / "back"
    assert (back / "folder 7" / "497.txt").read_text() == "content 497"
    assert (back / "ümläut ☃").read_bytes() == b"\xff"
    assert (back / "empty").is_dir()
    assert (back / "tool.sh").stat().st_mode & 0o777 == 0o755
    assert (back / "folder 0" / "0.txt").stat().st_mode & 0o111 == 0
    assert sum(1 for path in back.rglob("*") if path.is_file()) == 502


async def test_uploading_a_tree_merges_it_into_what_is_there(
    session: EnvironmentSession, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "new.txt").write_text("new")
    (source / "both.txt").write_text("from upload")
    await session.exec("mkdir tree; echo old > tree/old.txt; echo old > tree/both.txt")
    await session.upload(source, "tree")
    result = await session.exec("cat tree/new.txt tree/both.txt tree/old.txt")
    assert result.stdout.text == "newfrom uploadold\n"


async def test_downloading_something_missing_says_so(session: EnvironmentSession, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await session.download("missing", tmp_path / "out")


async def test_an_upload_that_is_cancelled_stops_and_leaves_a_sandbox_that_works(
    session: EnvironmentSession, tmp_path: Path
) -> None:
    """Cancelled at once and in the middle; what was sent is not there under its name, or is a part."""
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(4 * 1024**3)  # takes longer than anybody waits for the cancellation
    for pause in (0.0, 0.3):
        uploading = asyncio.create_task(session.upload(large, "received/large"))
        await asyncio.wait({uploading}, timeout=pause)
        uploading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await uploading
    await session.write("received/small", b"small")
    assert await session.read("received/small") == b"small"


async def test_a_downloaded_tree_holds_nothing_from_outside_of_it(
    session: EnvironmentSession, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("canary-31fe")
    await session.exec(
        f"""
        mkdir -p out/inner/deep && cd out && echo good > good.txt
        ln -s '{secret}' to-host-file
        ln -s '{tmp_path}' to-host-folder
        ln -s ../../../../../../../../../../../../etc/passwd climbing
        ln -s inner/deep/../../../secret.txt crooked
        ln -s ../.. inner/deep/up && ln -s inner/deep/up/../../secret.txt chained
        mkfifo pipe
        """
    )
    await session.download("out", tmp_path / "got")
    got = tmp_path / "got"
    assert (got / "good.txt").read_text() == "good\n"
    for name in ("to-host-file", "climbing", "crooked", "chained"):
        assert not (got / name).exists()
    assert not (got / "to-host-folder" / "secret.txt").exists()
    assert not (got / "pipe").exists()


async def test_links_within_a_downloaded_tree_still_lead_to_their_files(
    session: EnvironmentSession, tmp_path: Path
) -> None:
    await session.exec(
        'mkdir -p out/a && echo text > out/a/file && ln -s a/file out/relative && ln -s "$PWD/out/a" out/absolute'
    )
    await session.download("out", tmp_path / "got")
    moved = (tmp_path / "got").rename(tmp_path / "moved")
    assert (moved / "relative").read_text() == "text\n"
    assert (moved / "absolute" / "file").read_text() == "text\n"


async def test_an_upload_does_not_go_through_links_that_an_agent_left(
    session: EnvironmentSession, tmp_path: Path
) -> None:
    host_folder = tmp_path / "host"
    host_folder.mkdir()
    (host_folder / "file.txt").write_text("untouched")
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "file.txt").write_text("uploaded")
    (source / "top.txt").write_text("uploaded")
    await session.exec(
        f"mkdir tree && ln -s '{host_folder}' tree/sub && ln -s '{host_folder}/file.txt' tree/top.txt"
    )
    await session.upload(source, "tree")
    assert (host_folder / "file.txt").read_text() == "untouched"
    assert (await session.exec("cat tree/sub/file.txt tree/top.txt")).stdout.text == "uploadeduploaded"
