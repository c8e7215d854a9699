"""Over tasks: from one number per task to one number per series, category and tree node."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...contracts.metrics import (
    UNCATEGORIZED,
    AggregationMode,
    AggregationSpec,
    CategoryHierarchy,
    CategoryNode,
)
from .reducers import mean

ROOT = "overall"


@dataclass(frozen=True)
class Sample:
    """Evaluated tasks, and the number they amount to.

    ``weights`` say how much each of ``values`` weighs in ``value``; they add up to 1.
    """

    value: float
    values: tuple[float, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class TreeValue:
    """A node of the category tree: what it amounts to (``None``: nothing evaluated), and its share at its parent."""

    path: str
    categories: tuple[str, ...]
    sample: Sample | None
    share: float | None = None


def aggregate(values: Mapping[str, Sequence[float]], spec: AggregationSpec) -> Sample | None:
    """The one number of the evaluated tasks, whose values are given by category.

    ``micro``: the mean over tasks. ``category_mean``: the mean of the categories' means.
    ``category_hierarchy``: the root of the tree. ``None`` when no task counts.
    """
    if spec.mode is AggregationMode.CATEGORY_HIERARCHY and spec.hierarchy is not None:
        return aggregate_tree(values, spec.hierarchy)[0].sample
    if spec.mode is AggregationMode.CATEGORY_MEAN:
        parts = [sample for _, items in sorted(values.items()) if (sample := flat(items))]
        return _combine(parts, [1.0] * len(parts))
    return flat([item for items in values.values() for item in items])


def flat(values: Sequence[float]) -> Sample | None:
    """The plain mean; ``None`` when there is no value."""
    if not values:
        return None
    return Sample(mean(list(values)), tuple(values), (1.0 / len(values),) * len(values))


def aggregate_tree(values: Mapping[str, Sequence[float]], hierarchy: CategoryHierarchy) -> list[TreeValue]:
    """Every node of the tree, parents before children, the root first."""
    return _node(ROOT, _segment(ROOT), hierarchy.overall, values)


def category_of(category: str) -> str:
    """The name under which reports know a task's category."""
    return category or UNCATEGORIZED


def unplaced_categories(categories: set[str], spec: AggregationSpec) -> list[str]:
    """Those of ``categories`` (as tasks carry them) whose tasks a tree would not count, sorted.

    A preflight can refuse them; a report excludes their tasks, visibly.
    """
    if spec.mode is not AggregationMode.CATEGORY_HIERARCHY or spec.hierarchy is None:
        return []
    return sorted({category_of(item) for item in categories} - set(spec.hierarchy.categories()))


def _node(name: str, path: str, node: CategoryNode, values: Mapping[str, Sequence[float]]) -> list[TreeValue]:
    if not node.children:
        return [TreeValue(path, (name,), flat(values.get(name, ())))]
    branches = [
        (child, _node(key, f"{path}/{_segment(key)}", child, values))
        for key, child in sorted(node.children.items())
    ]
    present = [(child, branch) for child, branch in branches if branch[0].sample is not None]
    weights = [_weight(node, child, branch[0]) for child, branch in present]
    total = math.fsum(weights)
    shares = {branch[0].path: weight / total for (_, branch), weight in zip(present, weights, strict=True)}
    sample = _combine([branch[0].sample for _, branch in present if branch[0].sample], weights)
    below: list[TreeValue] = []
    for _, (top, *rest) in branches:
        below += [TreeValue(top.path, top.categories, top.sample, shares.get(top.path, 0.0)), *rest]
    categories = tuple(item for _, branch in branches for item in branch[0].categories)
    return [TreeValue(path, categories, sample), *below]


def _weight(node: CategoryNode, child: CategoryNode, result: TreeValue) -> float:
    if node.aggregation == "weighted_by_count":
        return float(len(result.sample.values)) if result.sample else 0.0
    if node.aggregation == "weighted" and child.weight is not None:
        return child.weight
    return 1.0


def _combine(parts: Sequence[Sample], weights: Sequence[float]) -> Sample | None:
    """The weighted mean of means, with the weights that tasks have in it."""
    if not parts:
        return None
    largest = max(weights)  # dividing by it first keeps the sum within the range of a float
    total = math.fsum(weight / largest for weight in weights)
    shares = [weight / largest / total for weight in weights]
    value = math.fsum(part.value * share for part, share in zip(parts, shares, strict=True))
    # Rounded shares may add up to a little over 1, and a mean never leaves the range of its parts.
    value = min(max(value, min(part.value for part in parts)), max(part.value for part in parts))
    return Sample(
        value,
        tuple(item for part in parts for item in part.values),
        tuple(item * share for part, share in zip(parts, shares, strict=True) for item in part.weights),
    )


def _segment(name: str) -> str:
    """A name as a part of a path, escaped as in a JSON Pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")
