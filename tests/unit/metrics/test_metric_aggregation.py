"""From tasks to one number: micro, category mean, category tree."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agentcompass.activities.metrics.aggregation import aggregate, aggregate_tree, unplaced_categories
from agentcompass.contracts.metrics import AggregationMode, AggregationSpec, CategoryHierarchy

VALUES = {"a": [1.0, 1.0, 1.0, 0.0], "b": [0.0], "c": [1.0, 0.0]}


def tree(**overall: Any) -> CategoryHierarchy:
    return CategoryHierarchy.model_validate({"overall": overall})


def by_tree(**overall: Any) -> AggregationSpec:
    return AggregationSpec(mode=AggregationMode.CATEGORY_HIERARCHY, hierarchy=tree(**overall))


LEAF = {"aggregation": "leaf"}
NESTED = {
    "aggregation": "weighted",
    "children": {
        "hard": {"aggregation": "unweighted", "weight": 3, "children": {"a": LEAF, "b": LEAF}},
        "c": {"weight": 1},
    },
}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (AggregationSpec(), 4 / 7),
        (AggregationSpec(mode=AggregationMode.CATEGORY_MEAN), (0.75 + 0.0 + 0.5) / 3),
        (by_tree(**NESTED), (3 * (0.75 + 0.0) / 2 + 1 * 0.5) / 4),
        (by_tree(aggregation="weighted_by_count", children={"a": LEAF, "b": LEAF, "c": LEAF}), 4 / 7),
        (by_tree(aggregation="unweighted", children={"a": LEAF, "missing": LEAF}), 0.75),
    ],
)
def test_each_mode_weighs_tasks_in_its_way(spec: AggregationSpec, expected: float) -> None:
    sample = aggregate(VALUES, spec)
    assert sample is not None
    assert sample.value == pytest.approx(expected)


@pytest.mark.parametrize(
    "spec", [AggregationSpec(), AggregationSpec(mode=AggregationMode.CATEGORY_MEAN), by_tree()]
)
def test_without_an_evaluated_task_there_is_no_number(spec: AggregationSpec) -> None:
    assert aggregate({}, spec) is None


def test_the_weights_of_tasks_explain_the_value() -> None:
    sample = aggregate(VALUES, by_tree(**NESTED))
    assert sample is not None
    assert sum(sample.weights) == pytest.approx(1.0)
    explained = sum(weight * value for weight, value in zip(sample.weights, sample.values, strict=True))
    assert explained == pytest.approx(sample.value)


def test_every_node_of_the_tree_is_told_with_its_share() -> None:
    nodes = aggregate_tree({"a": [1.0], "b": []}, tree(**NESTED))
    told = [(node.path, node.sample.value if node.sample else None, node.share) for node in nodes]
    assert told == [
        ("overall", 1.0, None),
        ("overall/c", None, 0.0),
        ("overall/hard", 1.0, 1.0),
        ("overall/hard/a", 1.0, 1.0),
        ("overall/hard/b", None, 0.0),
    ]


def test_slashes_and_tildes_in_names_are_escaped_in_paths() -> None:
    nodes = aggregate_tree({}, tree(aggregation="unweighted", children={"a/b~c": LEAF}))
    assert nodes[1].path == "overall/a~1b~0c"


def test_categories_outside_of_the_tree_are_named() -> None:
    assert unplaced_categories({"a", "c", "z", ""}, by_tree(**NESTED)) == ["__uncategorized__", "z"]
    assert unplaced_categories({"a", "z"}, AggregationSpec()) == []


@pytest.mark.parametrize(
    ("overall", "message"),
    [
        ({"children": {"a": {}}}, "a node with children needs aggregation"),
        ({"aggregation": "weighted"}, "needs children"),
        ({"aggregation": "weighted", "children": {"a": {}}}, "needs a weight for a"),
        ({"aggregation": "weighted", "children": {"a": {"weight": 0}}}, "greater than 0"),
        ({"aggregation": "median", "children": {"a": {}}}, "Input should be 'leaf'"),
        (
            {
                "aggregation": "unweighted",
                "children": {"a": {}, "g": {"aggregation": "unweighted", "children": {"a": {}}}},
            },
            "names a more than once",
        ),
    ],
)
def test_a_tree_that_cannot_be_computed_is_refused(overall: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        tree(**overall)


def test_a_hierarchy_without_a_tree_is_refused() -> None:
    with pytest.raises(ValidationError, match="needs a category_hierarchy"):
        AggregationSpec(mode=AggregationMode.CATEGORY_HIERARCHY)


def test_the_name_that_agentcompass_users_know_is_accepted() -> None:
    assert AggregationSpec.model_validate({"mode": "micro_weighted"}).mode is AggregationMode.MICRO


def test_null_children_of_a_leaf_are_accepted() -> None:
    assert tree(aggregation="leaf", weight=None, children=None).categories() == ["overall"]
