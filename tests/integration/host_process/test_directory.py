"""The directory of an environment: where it is, who may see it, and how it goes."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from environment_providers import ProviderUnderTest
from pydantic import ValidationError

from agentcompass.contracts import EnvironmentHandle, EnvironmentLostError, EnvironmentSession
from agentcompass.plugins.environments.host_process import HostProcess, HostProcessParams
from agentcompass.plugins.environments.shared.naming import file_name


def folder_of(session: EnvironmentSession) -> Path:
    """The directory of the environment."""
    return Path(session.workdir).parent


async def test_the_directory_is_below_the_root_and_private(session: EnvironmentSession, root: Path) -> None:
    folder = folder_of(session)
    assert folder == root / "launch-req-task-1-a1-e80b54f74e00"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["home", "proc", "tmp", "work"]


async def test_home_and_temporary_folder_belong_to_the_environment(session: EnvironmentSession) -> None:
    result = await session.exec('printf "%s %s %s" "$HOME" "$TMPDIR" "$LANG"')
    folder = folder_of(session)
    assert result.stdout.text == f"{folder}/home {folder}/tmp C.UTF-8"


async def test_only_path_is_taken_over_from_the_worker(session: EnvironmentSession) -> None:
    result = await session.exec(["env"])
    names = {line.partition("=")[0] for line in result.stdout.text.splitlines()}
    assert names == {
        "AGENTCOMPASS_COMMAND_ID",
        "AGENTCOMPASS_ENVIRONMENT_DIRECTORY",
        "AGENTCOMPASS_ENVIRONMENT_ID",
        "HOME",
        "LANG",
        "PATH",
        "TMPDIR",
    }


async def test_detached_processes_get_the_same_variables_and_no_more(session: EnvironmentSession) -> None:
    await session.start_process("p", "env > listed; mv listed done")
    status = await session.process_status("p")
    while status is not None and status.running:
        status = await session.process_status("p")
    names = {line.partition("=")[0] for line in (await session.read("done")).decode().splitlines()}
    # The shell itself adds PWD (and some shells OLDPWD, SHLVL, _).
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {
        "AGENTCOMPASS_COMMAND_ID",
        "AGENTCOMPASS_ENVIRONMENT_DIRECTORY",
        "AGENTCOMPASS_ENVIRONMENT_ID",
        "HOME",
        "LANG",
        "PATH",
        "TMPDIR",
    }


async def test_the_default_root_is_below_the_agentcompass_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCOMPASS_HOME", str(tmp_path / "home"))
    assert HostProcessParams().resolved_root() == tmp_path / "home" / "environments" / "host_process"
    monkeypatch.delenv("AGENTCOMPASS_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = tmp_path / ".agentcompass" / "environments" / "host_process"
    assert HostProcessParams().resolved_root() == expected


@pytest.mark.parametrize("root", ["relative/root", "/"])
def test_a_root_that_is_relative_or_the_whole_machine_is_refused(root: str) -> None:
    with pytest.raises(ValidationError, match="must be an absolute path below '/'"):
        HostProcessParams(root=Path(root))


async def test_variables_are_kept_readable_for_the_owner_only(
    described: ProviderUnderTest, host: HostProcess
) -> None:
    opened = await host.open(described.open_request(env_variables={"TOKEN": "t"}))
    path = folder_of(opened) / "variables.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await host.close(opened.handle)
    assert not path.exists()


@pytest.mark.parametrize(
    "forge",
    [
        lambda handle, victim: handle.model_copy(update={"data": {"directory": str(victim)}}),
        lambda handle, victim: handle.model_copy(update={"id": f"../{victim.name}", "data": handle.data}),
        lambda handle, victim: handle.model_copy(update={"provider": "docker"}),
    ],
)
async def test_a_forged_handle_removes_nothing(
    host: HostProcess, session: EnvironmentSession, tmp_path: Path, forge: object
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("precious")
    with pytest.raises(ValueError):
        await host.close(forge(session.handle, victim))  # type: ignore[operator]
    assert (victim / "file").read_text() == "precious"
    assert folder_of(session).is_dir()


async def test_an_environment_replaced_by_a_link_is_not_removed(
    host: HostProcess, root: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("precious")
    os.mkdir(root)
    (root / "linked").symlink_to(victim)
    with pytest.raises(ValueError, match="symbolic link"):
        await host.close(EnvironmentHandle(provider="host_process", id="linked"))
    assert (victim / "file").read_text() == "precious"


async def test_read_only_folders_and_links_are_removed_without_touching_what_they_mean(
    host: HostProcess, session: EnvironmentSession, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    (outside / "file").chmod(0o400)
    await session.exec(
        f"mkdir -p a/b && echo x > a/b/c && chmod 400 a/b/c && chmod 500 a/b && chmod 000 a && ln -s '{outside}' link "
        f"&& ln '{outside}/file' hard"
    )
    await host.close(session.handle)
    assert not folder_of(session).exists()
    assert (outside / "file").read_text() == "kept"
    assert stat.S_IMODE((outside / "file").stat().st_mode) == 0o400


async def test_a_tree_deeper_than_python_recurses_is_removed(
    host: HostProcess, session: EnvironmentSession
) -> None:
    await session.exec("i=0; while [ $i -lt 1500 ]; do mkdir d && cd -P d || exit 1; i=$((i+1)); done")
    await host.close(session.handle)
    assert not folder_of(session).exists()


async def test_a_removal_that_was_cut_short_is_lost_listed_and_finished_by_the_next_one(
    described: ProviderUnderTest, host: HostProcess, session: EnvironmentSession
) -> None:
    folder = folder_of(session)
    (folder / "closing").touch()  # what a worker leaves that is killed while it removes
    with pytest.raises(EnvironmentLostError):
        await host.attach(session.handle)
    assert [record.handle for record in await host.list_environments()] == [session.handle]
    await host.close(session.handle)
    assert not folder.exists()


async def test_opening_an_id_whose_removal_was_cut_short_starts_afresh(
    described: ProviderUnderTest, host: HostProcess, session: EnvironmentSession
) -> None:
    await session.write("old", b"old")
    (folder_of(session) / "closing").touch()
    again = await host.open(described.open_request(session.handle.id))
    with pytest.raises(FileNotFoundError):
        await again.read("old")


async def test_an_unreadable_ledger_does_not_hide_other_environments(
    host: HostProcess, session: EnvironmentSession, root: Path
) -> None:
    (root / "broken").mkdir()
    (root / "broken" / "ledger.json").write_text(json.dumps({"schema_version": "of the future"}))
    assert [record.handle for record in await host.list_environments()] == [session.handle]


@pytest.mark.parametrize(
    ("identifier", "name"),
    [
        ("plain-1.a_b", "plain-1.a_b"),
        ("../../etc", "etc-74ccf3c5b4c1"),
        ("..", "5ec1f7e700f3"),
        ("A", "a-559aead08264"),
    ],
)
def test_ids_become_file_names_that_cannot_climb_or_collide(identifier: str, name: str) -> None:
    assert file_name(identifier) == name


def test_long_ids_become_short_names_that_differ() -> None:
    names = {file_name("x" * 300 + end) for end in "ab"}
    assert len(names) == 2 and all(len(name) < 64 for name in names)


@pytest.mark.parametrize("identifier", ["", "a\0b"])
def test_ids_that_no_file_can_have_are_refused(identifier: str) -> None:
    with pytest.raises(ValueError):
        file_name(identifier)


@pytest.mark.parametrize("path", ["link", "folder/passwd", "../../../../../../../../../etc/passwd"])
async def test_reading_through_a_link_that_leads_out_is_refused(
    session: EnvironmentSession, path: str
) -> None:
    await session.exec("ln -s /etc/passwd link; ln -s /etc folder")
    with pytest.raises(PermissionError, match="leads out"):
        await session.read(path)


async def test_writing_never_goes_through_a_link_that_leads_out(
    session: EnvironmentSession, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("untouched")
    os.symlink(tmp_path, Path(session.workdir) / "folder")
    os.symlink(tmp_path / "file", Path(session.workdir) / "link")
    with pytest.raises(PermissionError, match="leads out"):
        await session.write("folder/file", b"changed")
    await session.write("link", b"the environment's own now")
    assert (tmp_path / "file").read_text() == "untouched"
