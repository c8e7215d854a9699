"""The parameters of a benchmark that say how tasks become one number."""

from __future__ import annotations

from typing import Any

import pytest

from agentcompass.activities.prepare_request import check_categories
from agentcompass.contracts import BenchmarkParams, ConfigurationError, TaskSpec, UsageError
from agentcompass.contracts.metrics import AggregationMode, AggregationSpec
from agentcompass.plugins.benchmarks.qa import QuestionAnswering
from agentcompass.plugins.registry import ComponentKind, load_registry

TREE = {"overall": {"aggregation": "unweighted", "children": {"a": {}, "b": {}}}}


def aggregation(**params: Any) -> AggregationSpec:
    return QuestionAnswering(QuestionAnswering.Params(path="q.jsonl", **params)).aggregation()


@pytest.mark.parametrize(
    ("params", "mode"),
    [
        ({}, AggregationMode.MICRO),
        ({"aggregation_mode": "micro_weighted"}, AggregationMode.MICRO),
        ({"aggregation_mode": "category_mean"}, AggregationMode.CATEGORY_MEAN),
        ({"category_hierarchy": TREE}, AggregationMode.CATEGORY_HIERARCHY),
        # As in AgentCompass, whose modes are only the other two.
        ({"category_hierarchy": TREE, "aggregation_mode": "micro_weighted"}, AggregationMode.CATEGORY_HIERARCHY),
    ],
)  # fmt: skip
def test_the_parameters_choose_the_aggregation(params: dict[str, Any], mode: AggregationMode) -> None:
    assert aggregation(**params).mode is mode


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"aggregation_mode": "median"}, "'aggregation_mode': Input should be 'micro', 'category_mean' or"),
        ({"aggregation_mode": "category_hierarchy"}, "aggregation category_hierarchy needs a category_hierarchy"),
        ({"category_hierarchy": {}}, "'category_hierarchy.overall' is required"),
        (
            {"category_hierarchy": {"overall": {"aggregation": "weighted", "children": {"a": {}}}}},
            "'category_hierarchy.overall': aggregation weighted needs a weight for a",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("benchmark", ["humaneval", "qa", "command"])
def test_wrong_ones_are_refused_for_every_benchmark(
    benchmark: str, params: dict[str, Any], message: str
) -> None:
    path = {} if benchmark == "humaneval" else {"path": "x"}
    with pytest.raises(ConfigurationError) as caught:
        load_registry().validate_params(ComponentKind.BENCHMARK, benchmark, {**path, **params})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_tasks_that_a_tree_would_not_count_are_refused_before_anything_runs() -> None:
    benchmark = QuestionAnswering(
        QuestionAnswering.Params.model_validate({"path": "q", "category_hierarchy": TREE})
    )
    check_categories(benchmark, [TaskSpec(task_id="1", category="a")], "benchmark 'qa'")
    tasks = [TaskSpec(task_id="1", category="a"), TaskSpec(task_id="2", category="z"), TaskSpec(task_id="3")]
    with pytest.raises(UsageError, match=r"no leaf for 2 of its categories: '__uncategorized__', 'z'"):
        check_categories(benchmark, tasks, "benchmark 'qa'")


def test_a_benchmark_of_other_parameters_is_aggregated_over_its_tasks() -> None:
    assert BenchmarkParams().aggregation_mode is AggregationMode.MICRO

    class Plain(QuestionAnswering):
        def __init__(self) -> None:
            self.params = object()  # type: ignore[assignment]  # an extension's own model

    assert Plain().aggregation() == AggregationSpec()
