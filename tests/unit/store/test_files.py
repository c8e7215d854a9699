"""Single files: atomic, never through a link, and errors that say what is wrong."""

import json
import multiprocessing
from pathlib import Path

import pytest
from pydantic import BaseModel, JsonValue

from agentcompass.activities.store.files import (
    encode,
    file_lock,
    read_bytes,
    read_json,
    read_model,
    remove_leftovers,
    write_atomic,
    write_json_atomic,
)
from agentcompass.contracts.errors import RecordError


class Note(BaseModel):
    text: str
    value: JsonValue = None


def test_written_model_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "note.json"
    write_json_atomic(path, Note(text="é", value={"n": 1}), durable=True, indent=True)
    assert read_model(path, Note) == Note(text="é", value={"n": 1})
    assert path.read_text() == '{\n  "text": "é",\n  "value": {\n    "n": 1\n  }\n}\n'


def test_nothing_but_the_file_is_left_in_the_directory(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", b"1", durable=False)
    write_atomic(tmp_path / "a", b"2", durable=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"2"


def test_symbolic_link_is_replaced_and_its_target_untouched(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("keep")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomic(tmp_path / "link", b"new", durable=False)
    assert (tmp_path / "target").read_text() == "keep"
    assert not (tmp_path / "link").is_symlink()


def test_symbolic_link_is_not_read_through(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(RecordError, match="link: cannot be read"):
        read_bytes(tmp_path / "link")


def test_failed_write_leaves_the_old_file_and_no_temporary_one(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "inside").touch()
    with pytest.raises(OSError):
        write_atomic(tmp_path / "directory", b"x", durable=False)
    assert [path.name for path in tmp_path.iterdir()] == ["directory"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"text": "a', "Note: the file: Invalid JSON"),
        ("", "Note: the file: Invalid JSON"),
        ('{"text": 1}', "Note: text: Input should be a valid string"),
    ],
)
def test_broken_file_is_an_error_with_path_and_reason(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "note.json").write_text(content)
    with pytest.raises(RecordError) as caught:
        read_model(tmp_path / "note.json", Note)
    assert f"{tmp_path}/note.json" in str(caught.value) and reason in str(caught.value)


def test_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"gone\.json: no such file"):
        read_model(tmp_path / "gone.json", Note)


@pytest.mark.parametrize("indent", [True, False])
@pytest.mark.parametrize("model", [True, False])
def test_values_that_fast_encoders_refuse_are_written(indent: bool, model: bool) -> None:
    value: JsonValue = {"big": 10**30, "lone": "a\ud800b", "nan": float("nan"), "list": [1.5]}
    written = json.loads(encode(Note(text="t", value=value) if model else {"value": value}, indent=indent))
    assert written["value"]["big"] == 10**30
    assert written["value"]["lone"].startswith("a�") and written["value"]["lone"].endswith("b")
    assert written["value"]["nan"] is None and written["value"]["list"] == [1.5]


def test_integers_beyond_64_bits_are_read_as_integers(tmp_path: Path) -> None:
    (tmp_path / "n.json").write_text(f"[{10**30}]")
    assert read_json(tmp_path / "n.json") == [10**30]


def test_leftovers_of_killed_writers_are_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".tmp-1-2-aa").touch()
    (tmp_path / "keep.json").touch()
    remove_leftovers(tmp_path, older_than_seconds=3600)
    assert len(list(tmp_path.iterdir())) == 2
    remove_leftovers(tmp_path, older_than_seconds=-1)
    assert [path.name for path in tmp_path.iterdir()] == ["keep.json"]


def _add_one(directory: Path, times: int) -> None:
    for _ in range(times):
        with file_lock(directory / "lock"):
            count = int((directory / "count").read_text())
            (directory / "count").write_text(str(count + 1))


def test_lock_excludes_other_processes(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add_one, args=(tmp_path, 50)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert (tmp_path / "count").read_text() == "150"
