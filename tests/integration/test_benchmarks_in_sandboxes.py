"""Each benchmark in each kind of sandbox: its reference solutions are right there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import CommandLine
from fake_daytona import KEY, require_fake_daytona
from fake_modal import TOKEN, require_fake_modal
from model_process import ModelProcess
from tool_images import python_image

DATA = Path(__file__).parents[1] / "data"
AGREES = [{"contains": "", "replies": [{"content": "The same.\nVERDICT: CORRECT"}]}]


def docker(line: CommandLine) -> dict[str, Any]:
    if "DOCKER_HOST" in os.environ:
        line.env["DOCKER_HOST"] = os.environ["DOCKER_HOST"]
    return {"image": python_image(), "pull": "never"}


def daytona(line: CommandLine) -> dict[str, Any]:
    line.env.update(DAYTONA_API_KEY=KEY, DAYTONA_API_URL=require_fake_daytona().url)
    return {}


def modal(line: CommandLine) -> dict[str, Any]:
    names = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")
    url = require_fake_modal().url
    line.env.update(zip(names, TOKEN.values(), strict=True), MODAL_SERVER_URL=url)
    return {}


@pytest.mark.parametrize("provider", [docker, daytona, modal], ids=lambda it: it.__name__)
def test_the_oracle_is_right(
    command_line: CommandLine, provider: Callable[[CommandLine], dict[str, Any]], tmp_path: Path
) -> None:
    pytest.importorskip("swebench", reason="grading needs the extra 'swebench', which is large")
    environment = {"id": provider.__name__, **provider(command_line)}
    with ModelProcess(tmp_path, AGREES) as judge:
        benchmarks: list[dict[str, Any]] = [
            {"id": "pinchbench", "path": str(DATA / "pinchbench"), "automated_only": True},
            {"id": "swebench_verified", "path": str(DATA / "swebench/fixture.jsonl"), "folder": "testbed"},
            {"id": "bfcl", "path": str(DATA / "bfcl"), "limit": 1},
            {
                "id": "judged_qa",
                "path": str(DATA / "judged_qa/metadata.jsonl"),
                "judge": {"id": "j", "base_url": judge.base_url},
            },
        ]
        plan = tmp_path / "plan.yaml"
        requests = [
            {"name": one["id"], "benchmark": one, "harness": {"id": "oracle"}, "environment": environment}
            for one in benchmarks
        ]
        plan.write_text(
            yaml.safe_dump(
                {"version": 1, "name": "all", "requests": requests, "defaults": {"model": {"id": "none"}}}
            )
        )
        command_line.run("launch", str(plan), "--progress", "none").expect(0)
    results: dict[str, list[Any]] = {}
    for run_dir in command_line.run_dirs:
        records = [json.loads(file.read_bytes()) for file in (run_dir / "details").glob("*.json")]
        found = [record["attempts"]["1"] for record in records]
        results[run_dir.parent.name] = [value for item in found for value in item["metrics"].values()]
    assert results == {
        "pinchbench": [1.0],
        "swebench_verified": [True],
        "bfcl": [True],
        "judged_qa": [True, True, True],
    }
