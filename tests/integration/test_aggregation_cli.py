"""How tasks become one number, chosen by the parameters of the benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, Ended

ROWS = [
    {"id": "a1", "category": "a", "command": "true"},
    {"id": "a2", "category": "a", "command": "true"},
    {"id": "b1", "category": "b", "command": "false"},
]
TREE = {
    "overall": {"aggregation": "weighted", "children": {"a": {"weight": 3}, "b": {"weight": 1}}},
}


def run(line: CommandLine, *options: str, **params: Any) -> Ended:
    params = {**json.loads(line.dataset(ROWS)), **params}
    return line.run(
        *("run", "command", "none", "none", "--env", "host_process", "--progress", "none"),
        *("--benchmark-params", json.dumps(params)),
        *options,
    )


def series_of(run_dir: Path) -> dict[str, Any]:
    [series] = json.loads((run_dir / "metrics.json").read_bytes())["series"]
    found: dict[str, Any] = series
    return found


def test_the_tree_of_a_run_weighs_its_categories_and_again_in_the_summary(command_line: CommandLine) -> None:
    ended = run(command_line, "--fail-under", "correct=0.75", category_hierarchy=TREE).expect(0)
    assert "correct.native@1 = 0.7500" in ended.stdout
    [run_dir] = command_line.run_dirs
    before = series_of(run_dir)
    assert (before["aggregation"], before["value"]) == ("category_hierarchy", 0.75)
    assert {path: (node["value"], node["weight"]) for path, node in before["hierarchy"].items()} == {
        "overall": (0.75, None),
        "overall/a": (1.0, 0.75),
        "overall/b": (0.0, 0.25),
    }
    (run_dir / "metrics.json").unlink()
    command_line.run("summary", str(run_dir)).expect(0)
    assert series_of(run_dir) == before


def test_finished_tasks_are_aggregated_in_another_way_without_running_again(
    command_line: CommandLine,
) -> None:
    run(command_line, "--run-id", "first").expect(0)
    run(command_line, "--run-id", "second", "--reuse", aggregation_mode="category_mean").expect(0)
    first, second = command_line.run_dirs
    assert (series_of(first)["value"], series_of(second)["value"]) == (pytest.approx(2 / 3), 0.5)
    assert json.loads((second / "progress.json").read_bytes())["reused_tasks"] == 3


def test_a_tree_that_leaves_tasks_out_is_refused_and_nothing_is_left(command_line: CommandLine) -> None:
    tree = {"overall": {"aggregation": "unweighted", "children": {"a": {}}}}
    ended = run(command_line, category_hierarchy=tree).expect(2)
    assert "category_hierarchy has no leaf for 1 of its categories: 'b'" in ended.stderr
    assert command_line.run_dirs == []
