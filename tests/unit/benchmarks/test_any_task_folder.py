"""Any folder of tasks is read, or refused in one line that names the task: never another exception."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentcompass.contracts import Benchmark, DatasetError
from agentcompass.plugins.benchmarks.bfcl import Bfcl, BfclParams
from agentcompass.plugins.benchmarks.harbor import Harbor, HarborParams
from agentcompass.plugins.benchmarks.harbor.sources import candidates
from agentcompass.plugins.benchmarks.hub.splits import files_of_split
from agentcompass.plugins.benchmarks.pinchbench import PinchBench, PinchBenchParams
from agentcompass.plugins.environments.docker.compose.document import ComposeError, parse

SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NASTY = [
    "(",
    "../x",
    "a\0b",
    "/etc/passwd",
    "x" * 300,
    "a" * 5000,
    "[" * 5000,
    "9" * 5000,
    "\u2028",
    "1h",
    "---",
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.dates()
    | st.text(max_size=5)
    | st.sampled_from(NASTY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(NASTY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def damaged(draw: st.DrawFn, intact: bytes) -> bytes:
    """Garbage, or the file with some bytes changed, cut off, or put in."""
    kind = draw(st.sampled_from(["garbage", "changed", "cut", "inserted"]))
    if kind == "garbage":
        return draw(st.binary(max_size=60))
    at = draw(st.integers(0, len(intact) - 1))
    if kind == "cut":
        return intact[:at]
    put = draw(st.binary(min_size=1, max_size=3) | st.sampled_from(NASTY).map(str.encode))
    return intact[:at] + put + intact[at + (kind == "changed") :]


def load_or_refuse(driver: Callable[..., Any], benchmark: Benchmark[Any], named: str) -> None:
    try:
        tasks = asyncio.run(driver(benchmark).load())
    except DatasetError as error:
        assert named in str(error)
        assert "\n" not in str(error)
        assert len(str(error)) < 2000
    else:
        assert tasks
        for task in tasks:
            type(task).model_validate_json(task.model_dump_json())  # it can be stored as it is


SCALARS = [
    "2001-99-99",
    "!!int x",
    "!!int ''",
    "!!float x",
    "!!bool x",
    "!!timestamp x",
    "0x_",
    "*no",
    "&a [*a]",
]
SCALARS += ["{", "? [a]", "[" * 600, '"\\ud800"', "9" * 5000, "!!python/object:os.system x", "!!binary x"]
"""What YAML's reader refuses in its own way, and in that of what it is written with."""
FRONT: dict[str, Any] = {
    "id": "task_a",
    "name": "A",
    "category": "office",
    "grading_type": "automated",
    "timeout_seconds": 60,
    "workspace_files": [{"path": "a.txt", "content": "x"}, {"source": "task_a.md", "dest": "b.txt"}],
    "grading_weights": {"automated": 0.5, "llm_judge": 0.5},
    "multi_session": False,
    "sessions": [],
}
BODY = "\n## Prompt\n\nDo it.\n\n## Automated Checks\n\n```python\ndef grade(transcript, workspace_path):\n    return {}\n```\n"


def pinch(front: str) -> bytes:
    return f"---\n{front}\n---\n{BODY}".encode("utf-8", "surrogatepass")


def changed_front() -> st.SearchStrategy[bytes]:
    """The front matter with other values, as a YAML writer or a person would put them."""
    fields = st.dictionaries(st.sampled_from(sorted(FRONT)), VALUES, min_size=1, max_size=2)
    sources = st.sampled_from(NASTY).map(lambda name: {"workspace_files": [{"source": name, "dest": "b"}]})
    written = (fields | sources).map(lambda changed: yaml.safe_dump({**FRONT, **changed}))
    raw = st.sampled_from(SCALARS)
    return (written | raw.map(lambda value: f"{yaml.safe_dump(FRONT)}\nname: {value}")).map(pinch)


@SETTINGS
@given(content=damaged(pinch(yaml.safe_dump(FRONT))) | changed_front())
def test_any_markdown_file_is_a_pinchbench_task_or_refused(
    driver: Callable[..., Any], tmp_path: Path, content: bytes
) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    (folder / "task_a.md").write_bytes(content)
    load_or_refuse(driver, PinchBench(PinchBenchParams(path=str(folder))), str(folder / "task_a.md"))


@pytest.mark.parametrize("value", SCALARS, ids=lambda value: value[:20])
def test_yaml_that_is_not_what_it_says_to_be_is_refused(
    driver: Callable[..., Any], tmp_path: Path, value: str
) -> None:
    (tmp_path / "task_a.md").write_bytes(pinch(f"{yaml.safe_dump(FRONT)}\ncategory: {value}"))
    with pytest.raises(DatasetError, match=r"task_a\.md"):
        asyncio.run(driver(PinchBench(PinchBenchParams(path=str(tmp_path)))).load())
    with pytest.raises(ComposeError):
        parse(f"services: {value}\nx: {value}")
    card = f"---\nconfigs: {value}\n---\n"
    assert files_of_split("a/b", ["test.jsonl"], card, config=None, split="test", given=None) == [
        "test.jsonl"
    ]


def test_front_matter_that_refers_to_itself_over_and_over_is_read_in_no_time(
    driver: Callable[..., Any], tmp_path: Path
) -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30))]
    for key in ("sessions", "name", "workspace_files", "grading_weights"):
        front = "\n".join([*lines, "id: t", "grading_type: automated", f"{key}: *a29"])
        (tmp_path / "task_a.md").write_bytes(pinch(front))
        with pytest.raises(DatasetError, match=r"task_a\.md"):
            asyncio.run(driver(PinchBench(PinchBenchParams(path=str(tmp_path)))).load())


TOML = b"""\
version = "1.0"
artifacts = ["/app/out"]
[metadata]
difficulty = "easy"
tags = ["a"]
[agent]
timeout_sec = 60.0
[verifier]
timeout_sec = 60.0
env = { A = "b" }
[environment]
cpus = 1
memory = "1G"
storage_mb = 512
build_timeout_sec = 60.0
allow_internet = true
[[environment.mcp_servers]]
name = "x"
transport = "stdio"
command = "x"
args = []
"""
KEYS = ["version", "artifacts", "metadata", "agent", "verifier", "environment", "steps", "multi_step_reward_strategy", "x"]  # fmt: skip
INNER = [
    "timeout_sec",
    "env",
    "cpus",
    "memory",
    "memory_mb",
    "storage_mb",
    "gpus",
    "docker_image",
    "workdir",
    "user",
]
INNER += [
    "network_mode",
    "allowed_hosts",
    "healthcheck",
    "mcp_servers",
    "skills_dir",
    "environment",
    "collect",
    "name",
]


def toml_value(value: object) -> str:
    """A value of TOML, where it has one for it."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(str(key))} = {toml_value(item)}" for key, item in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value) if isinstance(value, str | bool | int) else str(value).replace("None", '""')


def any_toml() -> st.SearchStrategy[bytes]:
    """A table whose keys are those of the format, and whose values are not."""
    inner = st.dictionaries(
        st.sampled_from(INNER), VALUES | st.lists(st.fixed_dictionaries({"name": VALUES})), max_size=3
    )
    table = st.dictionaries(st.sampled_from(KEYS), VALUES | inner | st.lists(inner, max_size=2), max_size=3)
    raw = st.sampled_from(
        ["9" * 5000, "1e999", "2001-99-99", "[" * 5000, "inf", "'''\n'''", '"""\\\n"""', "0xg"]
    )
    return (
        table.map(lambda value: "\n".join(f"{key} = {toml_value(item)}" for key, item in value.items()))
        | raw.map(lambda value: f"version = {value}")
    ).map(str.encode)


@SETTINGS
@given(content=damaged(TOML) | any_toml(), environment=st.sampled_from(["environment", "tests", "steps"]))
def test_any_task_toml_is_a_harbor_task_or_refused(
    driver: Callable[..., Any], tmp_path: Path, content: bytes, environment: str
) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path)) / "broken"
    for part in ("environment", "tests", environment):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "instruction.md").write_text("Do it.")
    (folder / "tests" / "test.sh").write_text("#!/bin/sh\n")
    (folder / "task.toml").write_bytes(content)
    load_or_refuse(driver, Harbor(HarborParams(path=str(folder))), "broken: ")


REGISTRY: list[dict[str, Any]] = [
    {
        "name": "set",
        "version": "1",
        "tasks": [{"name": "t", "git_url": "file:///nowhere", "git_commit_id": "-x", "path": "t"}],
    }
]


def changed_registry() -> st.SearchStrategy[bytes]:
    """Lists that may look like a registry; no address in there that git would be asked for."""
    task = st.dictionaries(st.sampled_from(sorted(REGISTRY[0]["tasks"][0])), JSON)
    dataset = st.dictionaries(
        st.sampled_from(["name", "version", "tasks"]), JSON | st.lists(task, max_size=2)
    )
    return (JSON | st.lists(dataset | JSON, max_size=2)).map(lambda value: json.dumps(value).encode())


@SETTINGS
@given(content=damaged(json.dumps(REGISTRY).encode()) | changed_registry())
def test_any_file_is_a_registry_of_harbor_tasks_or_refused(
    driver: Callable[..., Any], tmp_path: Path, content: bytes
) -> None:
    file = Path(tempfile.mkdtemp(dir=tmp_path)) / "registry.json"
    file.write_bytes(content)
    load_or_refuse(driver, Harbor(HarborParams(registry=str(file))), str(file))


@pytest.mark.parametrize("text", ["\0", "\ud800", "-x", " "], ids=ascii)
@pytest.mark.parametrize("field", ["git_url", "git_commit_id", "path"])
def test_a_registry_whose_task_no_command_could_be_given_is_refused(
    tmp_path: Path, field: str, text: str
) -> None:
    task = {**REGISTRY[0]["tasks"][0], "git_commit_id": "abc"}
    before = "" if text == "-x" else task[field]
    file = tmp_path / "registry.json"
    file.write_text(json.dumps([{"name": "set", "tasks": [{**task, field: f"{before}{text}"}]}]))
    with pytest.raises(DatasetError) as caught:
        candidates(HarborParams(registry=str(file)))
    assert "\n" not in str(caught.value)


QUESTION = {
    "id": "simple_0",
    "question": [[{"role": "user", "content": "Add 1 and 2."}]],
    "function": [
        {"name": "add", "description": "", "parameters": {"properties": {"a": {"type": "integer"}}}}
    ],
}
ANSWER = {"id": "simple_0", "ground_truth": [{"add": {"a": [1]}}]}


def changed_row(row: dict[str, Any]) -> st.SearchStrategy[bytes]:
    changed = st.dictionaries(st.sampled_from(sorted(row)), JSON, max_size=2)
    return changed.map(lambda fields: json.dumps({**row, **fields}).encode())


@SETTINGS
@given(
    asked=damaged(json.dumps(QUESTION).encode()) | changed_row(QUESTION),
    accepted=damaged(json.dumps(ANSWER).encode())
    | changed_row(ANSWER)
    | st.just(json.dumps(ANSWER).encode()),
)
def test_any_files_are_a_category_of_bfcl_or_refused(
    driver: Callable[..., Any], tmp_path: Path, asked: bytes, accepted: bytes
) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    (folder / "possible_answer").mkdir()
    (folder / "BFCL_v4_simple_python.json").write_bytes(asked)
    (folder / "possible_answer" / "BFCL_v4_simple_python.json").write_bytes(accepted)
    params = BfclParams.model_validate({"path": str(folder), "categories": ["simple_python"]})
    load_or_refuse(driver, Bfcl(params), str(folder))
