import gzip
from pathlib import Path

import pytest
from pydantic import Field

from agentcompass.contracts import Contract, DatasetError
from agentcompass.plugins.benchmarks.jsonl import read_jsonl, require_unique


class City(Contract):
    name: str = Field(min_length=1)
    people: int = 0


def _error(path: Path, data: bytes | None = None) -> str:
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(DatasetError) as caught:
        read_jsonl(path, City)
    return str(caught.value)


def test_rows_know_their_line_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "cities.jsonl"
    path.write_bytes(b'{"name": "Ulm"}\n\n  \r\n{"name": "Bern", "people": 3}\r\n')
    rows = read_jsonl(path, City)
    assert [(row.place, row.row) for row in rows] == [
        (f"{path}:1", City(name="Ulm")),
        (f"{path}:4", City(name="Bern", people=3)),
    ]


def test_a_line_separator_inside_a_string_does_not_end_the_line(tmp_path: Path) -> None:
    path = tmp_path / "cities.jsonl"
    path.write_text('{"name": "U\u2028l\u0085m"}\n', encoding="utf-8")
    assert read_jsonl(path, City)[0].row.name == "U\u2028l\u0085m"


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "cities.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"name": "Ulm"}')
    assert read_jsonl(path, City)[0].row.name == "Ulm"


def test_a_gzip_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cities.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"name": "Ulm"}\n'))
    assert read_jsonl(path, City)[0].row.name == "Ulm"


def test_a_home_directory_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "cities.jsonl").write_bytes(b'{"name": "Ulm"}')
    assert read_jsonl("~/cities.jsonl", City)[0].row.name == "Ulm"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    assert _error(path) == f"data set '{path}' does not exist"


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert _error(tmp_path) == f"data set '{tmp_path}' is a directory; give the .jsonl file in it"


@pytest.mark.parametrize("data", [b"", b"\n\n", b"   "])
def test_a_file_without_rows_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "empty.jsonl"
    assert _error(path, data) == f"{path} has no rows; expected one JSON object per line"


def test_malformed_json_is_reported_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "cities.jsonl"
    message = _error(path, b'{"name": "Ulm"}\n{"name": Ulm}\n')
    assert message.startswith(f"{path}:2: malformed JSON at column 10: ")


@pytest.mark.parametrize(
    ("line", "kind"),
    [(b"[1]", "a list"), (b'"x"', "a string"), (b"null", "null"), (b"true", "a boolean"), (b"4", "a number")],
)
def test_a_line_that_is_not_an_object_is_refused(tmp_path: Path, line: bytes, kind: str) -> None:
    path = tmp_path / "cities.jsonl"
    assert _error(path, line) == f"{path}:1: expected a JSON object, got {kind}"


def test_bytes_that_are_not_utf8_are_reported_with_their_column(tmp_path: Path) -> None:
    path = tmp_path / "cities.jsonl"
    message = _error(path, b'{"name": "Ulm"}\n{"name": "K\xf6ln"}\n')
    assert message == f"{path}:2: not UTF-8 (byte 0xf6 at column 12)"


def test_an_unknown_key_gets_the_nearest_name(tmp_path: Path) -> None:
    path = tmp_path / "cities.jsonl"
    message = _error(path, b'{"name": "Ulm", "peoples": 3}')
    assert message == f"{path}:1: unknown key 'peoples'; did you mean 'people'?"


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cities.jsonl"
    assert _error(path, b'{"people": 3}') == f"{path}:1: 'name' is required"


def test_a_wrong_type_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "cities.jsonl"
    assert _error(path, b'{"name": 5}') == f"{path}:1: 'name': Input should be a valid string, got 5"


@pytest.mark.parametrize(
    "data", [b"not gzip", gzip.compress(b'{"name": "Ulm"}')[:-6]], ids=["no gzip", "cut off"]
)
def test_a_damaged_gzip_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "cities.jsonl.gz"
    assert _error(path, data).startswith(f"data set '{path}' is not a complete gzip file: ")


def test_a_repeated_key_is_reported_with_both_lines(tmp_path: Path) -> None:
    path = tmp_path / "cities.jsonl"
    path.write_bytes(b'{"name": "Ulm"}\n{"name": "Bern"}\n{"name": "Ulm"}\n')
    with pytest.raises(DatasetError) as caught:
        require_unique(read_jsonl(path, City), lambda city: city.name, "name")
    assert str(caught.value) == f"{path}:3: name 'Ulm' is already used at {path}:1"
