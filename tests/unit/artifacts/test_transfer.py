"""From a real sandbox into a directory, by the provider's archive and by the sandbox's own ``tar``."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from environment_providers import eventually, pid_written_to, runs_inside

from agentcompass.activities.artifacts.meter import LimitExceededError, TransferMeter
from agentcompass.activities.artifacts.tar_stream import tar_stream
from agentcompass.activities.artifacts.transfer import Transfer
from agentcompass.contracts import ArtifactLimits, ArtifactSpec, ArtifactStatus, EnvironmentSession
from agentcompass.plugins.archives.archive_reader import BrokenArchiveError

OUT = ArtifactSpec(source="{workdir}/out")
LEFTOVERS = r"""
mkdir -p out/sub/deep out/cache; printf hello > out/a.txt; printf x > out/b.tmp; printf y > out/cache/c
ln -s a.txt out/inside; ln -s ../../secret out/outside; mkfifo out/pipe; ln out/a.txt out/twin
printf z > "$(printf 'out/line\nbreak')"; printf z > "$(printf 'out/\377')"; chmod 4755 out/a.txt
"""

MakeTransfer = Callable[..., Transfer]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def transfer(session: EnvironmentSession, tmp_path: Path, target: Path) -> MakeTransfer:
    def make(limits: ArtifactLimits | None = None) -> Transfer:
        meter = TransferMeter(limits or ArtifactLimits())
        return Transfer(session, target, tmp_path / "incoming", meter, lambda source, count: None)

    return make


@pytest.fixture(params=["provider", "tar"])
def way(request: pytest.FixtureRequest, session: EnvironmentSession, monkeypatch: pytest.MonkeyPatch) -> str:
    """The provider's own archive, or that of a provider which has none."""
    if request.param == "tar":
        use_tar(session, monkeypatch)
    return str(request.param)


def use_tar(session: EnvironmentSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(session), "stream_archive", EnvironmentSession.stream_archive)


def nothing_is_unfinished(target: Path) -> bool:
    return list((target.parent / "incoming").iterdir()) == []


async def test_what_an_agent_left_is_collected_and_the_rest_is_refused(
    session: EnvironmentSession, transfer: MakeTransfer, target: Path, way: str
) -> None:
    assert (await session.exec(LEFTOVERS)).ok
    entry = await transfer().collect(OUT.model_copy(update={"exclude": ["*.tmp", "cache/**"]}))
    assert entry.status is ArtifactStatus.COLLECTED
    assert (entry.size_bytes, entry.file_count) == (12, 5)
    # The same for both ways, and for the same files on any machine.
    assert entry.sha256 == "6b9ca793153d09f490ecd079bdf72915080f28f228af6e6b5ddc12ca8453ee44"
    assert {refused.path for refused in entry.refused} == {"outside", "pipe"}
    names = sorted(path.name for path in (target / "out").iterdir())
    assert names == ["a.txt", "cache", "inside", "line\nbreak", "sub", "twin", "\udcff"]
    assert (target / "out" / "a.txt").stat().st_mode & 0o7777 == 0o755
    assert (target / "out" / "twin").stat().st_nlink == 1
    assert nothing_is_unfinished(target)


async def test_a_missing_source_is_no_error(transfer: MakeTransfer, way: str) -> None:
    assert (await transfer().collect(OUT)).status is ArtifactStatus.MISSING
    below = ArtifactSpec(source="{workdir}/no/such/folder/file")
    assert (await transfer().collect(below)).status is ArtifactStatus.MISSING


async def test_a_source_that_is_fully_excluded_says_so(
    session: EnvironmentSession, transfer: MakeTransfer, target: Path, way: str
) -> None:
    await session.write("out", b"data")
    entry = await transfer().collect(ArtifactSpec(source="{workdir}/out", exclude=["o?t"]))
    assert entry.status is ArtifactStatus.EXCLUDED
    assert not (target / "out").exists()


@pytest.mark.parametrize("kind", ["mkfifo out", "ln -s /etc/passwd out"])
async def test_a_source_that_is_no_file_counts_as_missing_with_the_reason(
    session: EnvironmentSession, transfer: MakeTransfer, target: Path, way: str, kind: str
) -> None:
    assert (await session.exec(kind)).ok
    entry = await transfer().collect(OUT)
    assert entry.status is ArtifactStatus.MISSING
    assert entry.reason.startswith("what is there was refused: ")
    assert entry.refused_count == 1
    assert not (target / "out").exists()


async def test_a_socket_is_refused_by_name(session: EnvironmentSession, transfer: MakeTransfer) -> None:
    script = "import socket; socket.socket(socket.AF_UNIX).bind('out/door')"
    assert (await session.exec(f'mkdir out; python3 -c "{script}"')).ok
    entry = await transfer().collect(OUT)
    assert [refused.path for refused in entry.refused] == ["door"]


async def test_a_folder_above_the_source_that_leads_out_is_refused(
    session: EnvironmentSession, transfer: MakeTransfer, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "out").write_text("not the agent's")
    assert (await session.exec(f"ln -s '{outside}' way")).ok
    entry = await transfer().collect(ArtifactSpec(source="{workdir}/way/out"))
    assert entry.status is ArtifactStatus.MISSING
    assert "leads out of the environment" in entry.reason


async def test_a_huge_sparse_file_is_refused_at_once(
    session: EnvironmentSession, transfer: MakeTransfer, target: Path, way: str
) -> None:
    await session.exec("truncate -s 100G out")
    with pytest.raises(LimitExceededError, match="out has 107374182400 bytes"):
        await transfer(ArtifactLimits(max_mb=10)).collect(OUT)
    assert not (target / "out").exists()
    assert nothing_is_unfinished(target)
    assert await session.end_all_processes() == 0


async def test_limits_hold_for_all_artifacts_together(
    session: EnvironmentSession, transfer: MakeTransfer, way: str
) -> None:
    await session.exec("head -c 700000 /dev/zero > one; head -c 700000 /dev/zero > two")
    both = transfer(ArtifactLimits(max_mb=1))
    await both.collect(ArtifactSpec(source="{workdir}/one"))
    with pytest.raises(LimitExceededError):
        await both.collect(ArtifactSpec(source="{workdir}/two"))


async def test_half_a_file_of_an_earlier_try_is_replaced(
    session: EnvironmentSession, transfer: MakeTransfer, target: Path
) -> None:
    (target / "out" / "half").mkdir(parents=True)
    await session.write("out/whole", b"1")
    await transfer().collect(OUT)
    assert [path.name for path in (target / "out").iterdir()] == ["whole"]


async def test_a_file_that_grows_while_it_is_read_is_an_error(session: EnvironmentSession) -> None:
    await session.write("out", b"x" * 600_000)
    pieces = session.stream_archive(f"{session.workdir}/out")
    await anext(pieces)
    with (Path(session.workdir) / "out").open("ab") as stream:
        stream.write(b"more")
    with pytest.raises(OSError, match="changed while it was read"):
        async for _ in pieces:
            pass


async def test_a_file_that_shrinks_while_it_is_read_is_an_error(session: EnvironmentSession) -> None:
    await session.write("out", b"x" * 600_000)
    pieces = session.stream_archive(f"{session.workdir}/out")
    await anext(pieces)
    (Path(session.workdir) / "out").write_bytes(b"")
    with pytest.raises(OSError, match="became shorter"):
        async for _ in pieces:
            pass


async def forge_tar(session: EnvironmentSession, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent has put a ``tar`` of its own where it is found first."""
    use_tar(session, monkeypatch)
    await session.exec("mkdir out")
    await session.write(
        "bin/tar", f"#!/bin/sh\necho $$ > '{session.workdir}/pid'\n{script}\n".encode(), mode=0o755
    )
    path = (await session.exec("echo $PATH")).stdout.text.strip()
    session.add_variables({"PATH": f"{session.workdir}/bin:{path}"})


async def test_a_forged_tar_that_never_ends_is_ended_at_the_limit(
    session: EnvironmentSession, transfer: MakeTransfer, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = "import sys, tarfile; header = tarfile.TarInfo('out/a').tobuf(tarfile.GNU_FORMAT)"
    forever = "while True: sys.stdout.buffer.write(header)"
    await forge_tar(session, f'exec python3 -c "{block}\n{forever}"', monkeypatch)
    with pytest.raises(LimitExceededError):
        await transfer(ArtifactLimits(max_mb=1)).collect(OUT)
    assert not await runs_inside(session, await pid_written_to(session, "pid"))


async def test_a_forged_tar_that_says_nothing_is_dead_when_the_budget_ends(
    session: EnvironmentSession, transfer: MakeTransfer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await forge_tar(session, "sleep 600", monkeypatch)
    collecting = asyncio.create_task(transfer().collect(OUT))
    pid = await pid_written_to(session, "pid")
    collecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await collecting
    assert not await runs_inside(session, pid)
    assert nothing_is_unfinished(target)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("echo no archive at all", BrokenArchiveError),
        ("echo tar: cannot read it >&2; exit 2", OSError),
        ("head -c 10240 /dev/zero; echo tar: file changed as we read it >&2; exit 1", OSError),
    ],
)
async def test_a_tar_that_fails_is_an_error(
    session: EnvironmentSession,
    transfer: MakeTransfer,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    error: type[Exception],
) -> None:
    await forge_tar(session, script, monkeypatch)
    with pytest.raises(error):
        await transfer().collect(OUT)


async def test_a_large_file_survives_the_way_through_tar(session: EnvironmentSession) -> None:
    data = hashlib.sha256(b"block").digest() * 500_000  # 16 MB
    await session.write("large", data)
    received = b"".join([piece async for piece in tar_stream(session, f"{session.workdir}/large", [], 10**9)])
    assert received[512 : 512 + len(data)] == data


async def test_gnu_tar_does_not_send_what_is_excluded(session: EnvironmentSession) -> None:
    version = await session.exec("tar --version")
    if "GNU" not in version.stdout.text:
        pytest.skip("the tar here is another one")
    await session.exec(
        "mkdir -p out/dir/sub; head -c 100000 /dev/zero | tee out/a.tmp out/dir/sub/b > out/dir/c"
    )
    pieces = tar_stream(session, f"{session.workdir}/out", ["*.tmp", "dir/**"], 10**9)
    assert sum([len(piece) async for piece in pieces]) < 50_000


async def test_no_process_is_left_after_a_transfer(
    session: EnvironmentSession, transfer: MakeTransfer, way: str
) -> None:
    await session.write("out", b"1")
    await transfer().collect(OUT)

    async def quiet() -> bool:
        return await session.end_all_processes() == 0

    await eventually(quiet, "no process is left")


async def test_an_upload_that_is_cancelled_writes_nothing_more(
    session: EnvironmentSession, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(4):
        with (source / str(number)).open("wb") as stream:
            stream.truncate(8 * 1024**3)
    uploading = asyncio.create_task(session.upload(source, "in"))
    inside = Path(session.workdir) / "in"

    async def begun() -> bool:
        return inside.exists() and any(path.stat().st_size > 0 for path in inside.iterdir())

    await eventually(begun, "the upload writes")
    uploading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await uploading
    assert [path for path in inside.iterdir()] == []
