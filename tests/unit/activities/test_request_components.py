"""What of a request follows from its components: which recipes apply, and whether attempts overlap."""

from __future__ import annotations

from typing import Any

import pytest
from planning import AnyNetwork, PlannedBenchmark, PlannedHarness, request_of

from agentcompass.activities.prepare_request import attempts_overlap
from agentcompass.activities.services import RequestComponents, build_components
from agentcompass.contracts import NoParams, Recipe, UnknownComponentError
from agentcompass.plugins.registry import Registry


def recipe_class(name: str, priority: int) -> type[Recipe[Any]]:
    class Named(Recipe[NoParams]):
        id = name
        description = name

        def matches(self, request: Any, task: Any, plan: Any) -> bool:
            return True

        def apply(self, plan: Any, request: Any, task: Any) -> Any:
            return plan

    Named.priority = priority
    return Named


def registry() -> Registry:
    found = Registry()
    found.benchmark("planned", PlannedBenchmark)
    found.harness("planned", PlannedHarness)
    found.environment("sandbox", AnyNetwork)
    for name, priority in (("late", 9), ("first", 0), ("second", 0), ("early", -1)):
        found.recipe(name, recipe_class(name, priority))
    return found


@pytest.mark.parametrize(
    ("enabled", "applied"),
    [
        ([], ["early", "first", "second", "late"]),
        (["late"], ["late"]),
        (["second", "late", "first"], ["first", "second", "late"]),  # not in the order of the flags
    ],
)
def test_recipes_apply_by_priority_then_in_order_of_registration(
    enabled: list[str], applied: list[str]
) -> None:
    components = build_components(request_of(execution={"enabled_recipes": enabled}), registry())
    assert [recipe.id for recipe in components.recipes] == applied


def test_an_unknown_recipe_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownComponentError, match="unknown recipe 'frist'; did you mean 'first'"):
        build_components(request_of(execution={"enabled_recipes": ["frist"]}), registry())


@pytest.mark.parametrize("harness_safe", [True, False, None])
@pytest.mark.parametrize("benchmark_safe", [True, False])
@pytest.mark.parametrize(("k", "strategy"), [(1, "avg"), (3, "avg"), (3, "pass")])
def test_attempts_overlap_for_avg_only_and_when_both_sides_declare_it(
    k: int, strategy: str, benchmark_safe: bool, harness_safe: bool | None
) -> None:
    class Bench(PlannedBenchmark):
        parallel_attempts_safe = benchmark_safe

    class Driver(PlannedHarness):
        parallel_attempts_safe = bool(harness_safe)

    request = request_of(execution={"attempts": {"k": k, "strategy": strategy}})
    harness = None if harness_safe is None else Driver(NoParams())
    components = RequestComponents(request, Bench(NoParams()), AnyNetwork(NoParams()), harness, [])
    expected = (k, strategy) == (3, "avg") and benchmark_safe and harness_safe is not False
    assert attempts_overlap(components) is expected
