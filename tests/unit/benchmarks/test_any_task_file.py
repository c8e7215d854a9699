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
from agentcompass.plugins.benchmarks.qa import QuestionAnswering

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


@pytest.mark.parametrize("benchmark", ROWS, ids=lambda benchmark: benchmark.id)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    try:
        tasks = asyncio.run(driver(benchmark(benchmark.Params(path=str(file)))).load())
    except DatasetError as error:
        assert str(file) in str(error)
        assert "\n" not in str(error)
        assert len(str(error)) < 2000
    else:
        assert tasks
        for task in tasks:
            type(task).model_validate_json(task.model_dump_json())  # it can be stored as it is
