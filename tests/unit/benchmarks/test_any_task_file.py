"""Any task file is read, or refused in one line that names it: never another exception."""

from __future__ import annotations

import asyncio
import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentcompass.contracts import Benchmark, DatasetError
from agentcompass.plugins.benchmarks.command import CommandBenchmark
from agentcompass.plugins.benchmarks.humaneval import HumanEval
from agentcompass.plugins.benchmarks.judged_qa import JudgedQuestions
from agentcompass.plugins.benchmarks.qa import QuestionAnswering
from agentcompass.plugins.benchmarks.swebench_verified.instance import Instance
from agentcompass.plugins.benchmarks.tables import read_rows
from agentcompass.plugins.benchmarks.terminal_tasks import TerminalTasks

ROWS: dict[type[Benchmark[Any]], dict[str, Any]] = {
    QuestionAnswering: {"id": "a", "question": "1 + 1?", "answer": "2", "category": "x", "scorer": "exact"},
    CommandBenchmark: {
        "id": "a",
        "command": "true",
        "category": "x",
        "timeout_seconds": 1.5,
        "files": {"a/b": "c"},
        "expected_exit_status": 0,
        "expected_pattern": "a+",
    },
    HumanEval: {
        "task_id": "a",
        "prompt": "def f():\n",
        "entry_point": "f",
        "test": "def check(candidate):\n    assert True\n",
        "canonical_solution": "    return 1\n",
    },
    TerminalTasks: {
        "id": "a",
        "prompt": "Write x.",
        "category": "x",
        "files": {"a/b": "c"},
        "check": "test -f x",
        "expected_answer": "done",
    },
    JudgedQuestions: {"id": "a", "question": "1 + 1?", "answer": "2", "category": "x", "file_name": ""},
}
PARAMS: dict[type[Benchmark[Any]], dict[str, Any]] = {
    JudgedQuestions: {
        "judge": {"id": "judge", "base_url": "http://localhost:1/v1", "api_protocol": "openai-chat"}
    }
}
"""What a benchmark needs beside the path."""
INSTANCE: dict[str, Any] = {
    "instance_id": "a__b-1",
    "repo": "a/b",
    "version": "1",
    "problem_statement": "It breaks.",
    "patch": "",
    "FAIL_TO_PASS": '["t1"]',
    "PASS_TO_PASS": [],
    "log_parser": "pytest",
    "eval_script": "pytest",
    "image": None,
}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["(", "../x", "/etc/passwd", "\ud800", "[" * 50, "a" * 5000]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


@st.composite
def files(draw: st.DrawFn, row: dict[str, Any]) -> bytes:
    """Garbage, a file with damaged bytes, or rows whose fields hold something else."""
    kind = draw(st.sampled_from(["garbage", "json", "bytes", "cut", "fields"]))
    if kind == "garbage":
        return draw(st.binary(max_size=60))
    if kind == "json":
        return b"\n".join(encoded(value) for value in draw(st.lists(JSON, max_size=3)))
    intact = encoded(row) + b"\n" + encoded(row)
    at = draw(st.integers(0, len(intact) - 1))
    if kind == "bytes":
        return intact[:at] + draw(st.binary(min_size=1, max_size=3)) + intact[at + 1 :]
    if kind == "cut":
        return intact[:at]
    changed = draw(st.dictionaries(st.sampled_from(sorted(row)) | st.text(max_size=4), JSON, max_size=2))
    return encoded({**row, **changed})


def refused_well(error: DatasetError, file: Path) -> None:
    assert str(file) in str(error)
    assert "\n" not in str(error)
    assert len(str(error)) < 2000


@pytest.mark.parametrize("benchmark", ROWS, ids=lambda benchmark: benchmark.id)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), packed=st.booleans())
def test_any_file_is_read_or_refused_by_name(
    driver: Callable[..., Any],
    benchmark: type[Benchmark[Any]],
    tmp_path: Path,
    data: st.DataObject,
    packed: bool,
) -> None:
    content = data.draw(files(ROWS[benchmark]))
    if packed:
        content = gzip.compress(content)
        content = content[: data.draw(st.integers(0, len(content)))]
    file = Path(tempfile.mkdtemp(dir=tmp_path)) / ("tasks.jsonl.gz" if packed else "tasks.jsonl")
    file.write_bytes(content)
    params = benchmark.Params.model_validate({"path": str(file), **PARAMS.get(benchmark, {})})
    try:
        tasks = asyncio.run(driver(benchmark(params)).load())
    except DatasetError as error:
        refused_well(error, file)
    else:
        assert tasks
        for task in tasks:
            type(task).model_validate_json(task.model_dump_json())  # it can be stored as it is


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), ending=st.sampled_from(["json", "jsonl"]))
def test_any_table_is_read_or_refused_by_name(tmp_path: Path, data: st.DataObject, ending: str) -> None:
    """Of rows that ``swebench_verified`` reads, whose package need not be there for this; a ``.json`` is a list."""
    content = data.draw(files(INSTANCE))
    if ending == "json" and data.draw(st.booleans()):
        content = b"[" + content.replace(b"\n", b",") + b"]"
    file = Path(tempfile.mkdtemp(dir=tmp_path)) / f"rows.{ending}"
    file.write_bytes(content)
    try:
        rows = read_rows(file, Instance)
    except DatasetError as error:
        refused_well(error, file)
    else:
        assert rows
        for item in rows:
            assert item.place.startswith(str(file))
            Instance.model_validate_json(item.row.model_dump_json())


HOSTILE = [
    "(",
    "../x",
    "a\0b",
    "/etc/passwd",
    "[" * 100_000,
    "a" * 5000,
    "x\ny",
    "\u2028",
    "9" * 5000,
    "",
    " ",
]


@pytest.mark.parametrize("benchmark", ROWS, ids=lambda benchmark: benchmark.id)
def test_a_hostile_text_in_any_field_is_read_or_refused_by_name(
    driver: Callable[..., Any], benchmark: type[Benchmark[Any]], tmp_path: Path
) -> None:
    file = tmp_path / "tasks.jsonl"
    params = benchmark.Params.model_validate({"path": str(file), **PARAMS.get(benchmark, {})})
    for field in ROWS[benchmark]:
        for text in HOSTILE:
            file.write_bytes(encoded({**ROWS[benchmark], field: text}))
            try:
                asyncio.run(driver(benchmark(params)).load())
            except DatasetError as error:
                refused_well(error, file)


def test_a_hostile_text_in_any_field_of_a_table_is_read_or_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    for field in INSTANCE:
        for text in HOSTILE:
            file.write_bytes(encoded([{**INSTANCE, field: text}]))
            try:
                read_rows(file, Instance)
            except DatasetError as error:
                refused_well(error, file)
