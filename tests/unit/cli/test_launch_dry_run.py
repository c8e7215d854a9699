"""``agentcompass launch FILE --dry-run``: what would run, with nothing started and nothing written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KEY = "sk-of-a-variable-0123456789"
LITERAL = "sk-in-the-file-0123456789"
PLAN = f"""\
version: 1
task_concurrency: 5
defaults:
  model: {{id: first-model, base_url: "https://models.example/v1", api_key: "${{DRY_RUN_KEY}}"}}
  environment: {{id: host_process}}
requests:
  - name: one
    benchmark: {{id: qa, path: questions.jsonl}}
    harness: {{id: openai_chat}}
  - name: two
    benchmark: {{id: qa, path: questions.jsonl}}
    harness: {{id: oracle}}
    model: {{id: second-model, api_key: {LITERAL}}}
    execution: {{attempts: {{k: 3}}}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a launch file, beside an empty home."""
    top = tmp_path_factory.mktemp("dry")
    (top / "home").mkdir()
    (top / "project").mkdir()
    (top / "project" / "plan.yaml").write_text(PLAN)
    (top / "project" / "questions.jsonl").write_text('{"id": "q", "question": "1 + 1?", "answer": "2"}\n')
    return top


def dry_run(folder: Path, *options: str) -> str:
    """Its output, once it has ended well and left everything as it was."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    variables = {**os.environ, "HOME": str(folder / "home"), "DRY_RUN_KEY": KEY}
    for name in [name for name in variables if name.startswith(("AGENTCOMPASS_", "TEMPORAL_", "XDG_"))]:
        del variables[name]
    done = subprocess.run(
        [sys.executable, "-m", "agentcompass.cli.main", "launch", "plan.yaml", "--dry-run", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder / "project",
        env=variables,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert KEY not in done.stdout
    assert LITERAL not in done.stdout
    return done.stdout


def test_every_request_is_printed_resolved_with_where_each_value_is_from(folder: Path) -> None:
    said = dry_run(folder)
    assert [line for line in said.splitlines() if line.startswith("# ")] == ["# one", "# two"]
    first, second = ([line.split() for line in part.splitlines()] for part in said.split("# two"))
    assert ["benchmark.id", '"qa"', "plan.yaml:8"] in first
    assert ["harness.id", '"openai_chat"', "plan.yaml:9"] in first
    assert ["model.id", '"first-model"', "plan.yaml:4"] in first
    assert ["model.api_key", '"env:DRY_RUN_KEY"', "plan.yaml:4"] in first
    assert ["execution.attempts.k", "1", "default"] in first
    assert ["model.id", '"second-model"', "plan.yaml:13"] in second
    assert ["model.api_key", '"***"', "plan.yaml:13"] in second
    assert ["execution.attempts.k", "3", "plan.yaml:14"] in second
    for part in (first, second):
        assert ["environment.id", '"host_process"', "plan.yaml:5"] in part
        assert ["execution.task_concurrency", "5", "plan.yaml:2"] in part
        assert ["runtime.results_dir", json.dumps(str(folder / "project" / "results")), "default"] in part


def test_as_json_it_holds_the_same_and_flags_win(folder: Path) -> None:
    found: dict[str, dict[str, Any]] = json.loads(dry_run(folder, "--json", "--k", "2"))
    assert list(found) == ["one", "two"]
    for request in found.values():
        assert request["execution.attempts.k"] == {"value": 2, "origin": "--k"}
        assert request["execution.attempts.strategy"] == {"value": "avg", "origin": "default"}
    assert [request["model.id"]["value"] for request in found.values()] == ["first-model", "second-model"]
    assert [request["model.api_key"]["value"] for request in found.values()] == ["env:DRY_RUN_KEY", "***"]
