"""The rules that are kept from AgentCompass 1.0.1, on the same inputs.

``tests/data/peer_metrics.json`` holds made-up runs and the numbers that AgentCompass 1.0.1 computed for
them. Two rules differ on purpose: with more than k attempts (these runs have none) pass@k is estimated without
bias, and an attempt that was not made is no error: it makes its task unavailable and nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentcompass.activities.metrics import build_report
from agentcompass.contracts.benchmark_params import aggregation_spec
from agentcompass.contracts.metrics import (
    UNCATEGORIZED,
    AttemptObservation,
    Estimate,
    MetricContract,
    MetricKind,
    TaskObservations,
)
from agentcompass.contracts.request import AttemptsSpec

FILE = Path(__file__).parents[2] / "data" / "peer_metrics.json"
RUNS: list[dict[str, Any]] = json.loads(FILE.read_bytes())
CONTRACT = MetricContract(
    primary="correct", metrics={"correct": MetricKind.BINARY, "points": MetricKind.SCALAR}
)


def observed(task: dict[str, Any], attempts: AttemptsSpec) -> TaskObservations:
    return TaskObservations(
        task_id=task["id"],
        category=task["category"],
        expected_attempts=attempts.k,
        stopped_early=attempts.strategy == "pass" and any(item["correct"] for item in task["attempts"]),
        attempts=[
            AttemptObservation(
                attempt=number,
                metrics={name: item[name] for name in CONTRACT.metrics if item[name] is not None},
                fatal=item["severity"] == "fatal",
                error=item["severity"] == "error",
            )
            for number, item in enumerate(task["attempts"], start=1)
        ],
    )


def told(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": estimate.value,
        "reference_value": estimate.reference_value,
        "counts": estimate.counts.model_dump(),
    }


def comparable(found: Any, with_errors: bool) -> Any:
    """Sums are taken in another order: the last digits differ."""
    if isinstance(found, dict):
        return {
            name: comparable(item, with_errors)
            for name, item in found.items()
            if with_errors or name != "error"
        }
    return round(found, 12) + 0.0 if isinstance(found, float) else found


@pytest.mark.parametrize("run", RUNS, ids=[str(number) for number in range(len(RUNS))])
def test_the_numbers_are_those_of_agentcompass(run: dict[str, Any]) -> None:
    attempts = AttemptsSpec(k=run["k"], strategy=run["strategy"])
    aggregation = aggregation_spec(run["aggregation_mode"], run["category_hierarchy"])
    tasks = [observed(task, attempts) for task in run["tasks"]]
    report = build_report("b", CONTRACT, attempts, tasks, aggregation)
    expected = run["expected"]
    complete = all(task.stopped_early or len(task.attempts) == attempts.k for task in tasks)
    assert report.evaluation_failed == expected["evaluation_failed"]
    assert [series.id for series in report.series] == list(expected["series"])
    for series in report.series:
        ours = {
            **told(series),
            "categories": {name: told(item) for name, item in series.categories.items()},
            "hierarchy": {path: told(item) for path, item in series.hierarchy.items()},
        }
        theirs = dict(expected["series"][series.id])
        if not series.categories:  # no task has one: nothing to tell, but one bucket in AgentCompass
            assert set(theirs.pop("categories")) <= {UNCATEGORIZED}
            del ours["categories"]
        assert comparable(ours, complete) == comparable(theirs, complete)


def test_the_runs_cover_what_matters() -> None:
    plans = {(run["k"] > 1, run["strategy"]) for run in RUNS if run["tasks"]}
    assert plans == {(True, "avg"), (True, "pass"), (False, "avg"), (False, "pass")}
    assert {run["expected"]["evaluation_failed"] for run in RUNS} == {True, False}
    assert {run["aggregation_mode"] for run in RUNS} == {"micro_weighted", "category_mean"}
    assert sum(run["category_hierarchy"] is not None for run in RUNS) > 10
