"""One rule for all commands that read a run: a damaged record is named, the others count, the exit code is 1."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from recorded_runs import scored, write_run

from agentcompass.cli.main import run_cli

COMMANDS = {
    "summary": ["summary", "run"],
    "export atif": ["export", "run", "--format", "atif"],
    "export harbor": ["export", "run", "--format", "harbor"],
    "analysis": ["analysis", "run", "--analyzer", "exceptions"],
    "analysis in place": ["analysis", "run", "--override", "--analyzer", "exceptions"],
    "view": ["view", "run"],
    "view of a folder": ["view", ".", "--each"],
    "compare with it": ["compare", "run", "other"],
    "compare it": ["compare", "other", "run"],
}


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def becomes_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def becomes_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def becomes_a_link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def replaces(old: bytes, new: bytes) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        content = file.read_bytes()
        assert old in content
        file.write_bytes(content.replace(old, new))

    return damage


DAMAGES: dict[str, Callable[[Path], None]] = {
    "cut": cut,
    "empty": lambda file: file.write_bytes(b""),
    "no JSON": lambda file: file.write_bytes(b"\xff\x00"),
    "nested": lambda file: file.write_bytes(b"[" * 200_000),
    "of another version": replaces(b"agentcompass.task.v3", b"agentcompass.task.v9"),
    "of another task": replaces(b'"task_id": "torn"', b'"task_id": "good"'),
    "with attempt x": replaces(b'"1": {', b'"x": {'),
    "a folder": becomes_a_folder,
    "a pipe": becomes_a_pipe,
    "a link": becomes_a_link,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("run", "other"):
        write_run(tmp_path / name, {"good": [scored(True)], "torn": [scored(False)]})
    return tmp_path


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_an_intact_run_is_read_without_a_word(
    folder: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(arguments) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("damage", ["cut", "of another task"])
@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_every_command_names_the_damaged_record_and_ends_with_1(
    folder: Path, arguments: list[str], damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    DAMAGES[damage](folder / "run" / "details" / "torn.json")
    assert run_cli(arguments) == 1
    told = capsys.readouterr()
    [line] = [line for line in told.err.splitlines() if "Not passed" in line]
    assert "the record of task 'torn' cannot be read: details/torn.json: " in line
    assert line.endswith("; `agentcompass run … --reuse` executes the task again")
    assert str(folder) not in line
    assert "Error" not in told.err
    assert told.out


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("command", ["summary", "export atif", "view"])
def test_whatever_is_wrong_with_a_record_costs_its_task_only(
    folder: Path, command: str, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(folder / "run" / "details" / "torn.json")
    assert run_cli(COMMANDS[command]) == 1
    told = capsys.readouterr()
    assert "the record of task 'torn' cannot be read: " in told.err
    assert "Error" not in told.err
    expected = {"summary": "1/2 tasks evaluated", "export atif": "Exported: 1 attempts", "view": "Report: "}
    assert expected[command] in told.out


def test_the_status_of_a_run_with_a_damaged_record_is_not_completed_and_no_more(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut(folder / "run" / "details" / "torn.json")
    assert run_cli(["summary", "run"]) == 1
    [status] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Status: ")]
    assert status == "Status: completed, but not valid: 1 task record cannot be read"


def test_a_record_of_an_older_version_that_says_too_little_is_not_damaged(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = b'{"schema_version": "agentcompass.task.v2", "task_id": "torn", "error": "it failed"}'
    (folder / "run" / "details" / "torn.json").write_bytes(older)
    for name in ("summary", "export atif", "view", "analysis"):
        assert run_cli(COMMANDS[name]) == 0, name
    told = capsys.readouterr()
    assert "cannot be read" not in told.err
    assert "1 NOT evaluated: record_unclassified 1" in told.out
