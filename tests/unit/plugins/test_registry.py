from importlib.metadata import EntryPoint
from typing import Any

import pytest

from agentcompass.contracts import (
    Benchmark,
    ConfigurationError,
    NoParams,
    PluginError,
    Recipe,
    RunResult,
    UnknownComponentError,
)
from agentcompass.plugins.registry import ComponentKind, Registry, load_registry


class Sums(Benchmark[NoParams]):
    """A benchmark that exists only to be registered."""

    id = "sums"

    async def load_tasks(self, request: Any) -> Any:
        return []

    async def evaluate(self, task: Any, prepared: Any, result: RunResult, *rest: Any) -> RunResult:
        return result


def register_sums(registry: Registry) -> None:
    registry.benchmark("sums", Sums)


def register_then_fail(registry: Registry) -> None:
    registry.benchmark("half", Sums)
    raise RuntimeError("no licence")


def register_humaneval_again(registry: Registry) -> None:
    registry.benchmark("extra", Sums)
    registry.benchmark("humaneval", Sums)


NOT_A_FUNCTION = 5


def point(name: str, attribute: str, module: str = __name__) -> EntryPoint:
    return EntryPoint(name, f"{module}:{attribute}", "agentcompass.plugins")


BUILTIN = point("builtin", "register", "agentcompass.plugins.builtin")


@pytest.fixture
def registry() -> Registry:
    return load_registry(points=[BUILTIN])


def test_every_built_in_benchmark_of_this_package_can_be_used(registry: Registry) -> None:
    assert registry.get_benchmark("humaneval").id == "humaneval"
    assert registry.get_benchmark("qa").id == "qa"


def test_an_unknown_id_gets_the_nearest_names(registry: Registry) -> None:
    with pytest.raises(
        UnknownComponentError, match=r"^unknown benchmark 'humanevl'; did you mean 'humaneval'\?$"
    ):
        registry.get_benchmark("humanevl")


def test_an_unknown_id_without_a_near_name_gets_the_list() -> None:
    registry = Registry()
    registry.load_plugin("mine", register_sums)
    registry.benchmark("facts", Sums)
    with pytest.raises(UnknownComponentError, match=r"^unknown benchmark 'zzzz'; available: facts, sums$"):
        registry.get_benchmark("zzzz")


def test_an_unknown_id_of_a_kind_without_components_says_just_that() -> None:
    with pytest.raises(UnknownComponentError, match=r"^unknown recipe 'x'$"):
        Registry().get_recipe("x")


def test_ids_keep_the_order_of_registration() -> None:
    registry = Registry()
    registry.load_plugin("mine", register_sums)
    registry.benchmark("a", Sums)
    assert registry.ids(ComponentKind.BENCHMARK) == ["sums", "a"]
    assert registry.ids(ComponentKind.HARNESS) == []


def test_a_registration_says_who_made_it() -> None:
    registry = Registry()
    registry.load_plugin("mine", register_sums)
    [item] = registry.registrations(ComponentKind.BENCHMARK)
    assert (item.plugin, item.where) == ("mine", f"{__name__}:Sums")


def test_a_plugin_that_cannot_be_imported_is_named_and_others_still_load() -> None:
    registry = load_registry(
        points=[point("absent", "register", "no_such_package.plugin"), point("mine", "register_sums")]
    )
    assert registry.broken == [
        "plugin 'absent' (no_such_package.plugin:register): "
        "ModuleNotFoundError: No module named 'no_such_package'"
    ]
    assert registry.get_benchmark("sums") is Sums
    with pytest.raises(UnknownComponentError, match=r"did you mean 'sums'\? \(not loaded: plugin 'absent' "):
        registry.get_benchmark("sum")


def test_a_plugin_without_the_named_function_is_named() -> None:
    registry = load_registry(points=[point("old", "no_such_function")])
    assert len(registry.broken) == 1
    assert registry.broken[0].startswith(f"plugin 'old' ({__name__}:no_such_function): AttributeError: ")


def test_a_plugin_whose_entry_is_not_a_function_is_named() -> None:
    registry = load_registry(points=[point("odd", "NOT_A_FUNCTION")])
    assert registry.broken == [
        "plugin 'odd' could not be registered: TypeError: 'int' object is not callable"
    ]


def test_nothing_of_a_plugin_that_failed_half_way_is_registered() -> None:
    registry = load_registry(points=[point("half", "register_then_fail"), point("mine", "register_sums")])
    assert registry.broken == ["plugin 'half' could not be registered: RuntimeError: no licence"]
    assert registry.ids(ComponentKind.BENCHMARK) == ["sums"]


def test_a_taken_id_costs_the_second_plugin_and_both_are_named() -> None:
    # The name of the third party sorts before "builtin"; the built-in ones are still the first.
    registry = load_registry(points=[point("a_third_party", "register_humaneval_again"), BUILTIN])
    assert registry.broken == [
        "benchmark 'humaneval' of plugin 'a_third_party' is already registered by 'builtin' "
        "(agentcompass.plugins.benchmarks.humaneval:HumanEval); one of the two needs another id"
    ]
    assert registry.get_benchmark("humaneval").__name__ == "HumanEval"
    assert "extra" not in registry.ids(ComponentKind.BENCHMARK)


def test_one_id_may_be_used_for_different_kinds() -> None:
    registry = Registry()
    registry.benchmark("same", Sums)
    registry.harness("same", "agentcompass.plugins.harnesses.nop:Nop")
    assert registry.get_harness("same").id == "nop"


def test_a_component_whose_module_cannot_be_imported_is_named_when_it_is_used() -> None:
    registry = Registry()
    registry.load_plugin("mine", lambda target: target.harness("h", "no_such_package.agent:Agent"))
    assert registry.ids(ComponentKind.HARNESS) == ["h"]
    with pytest.raises(PluginError) as caught:
        registry.get_harness("h")
    assert str(caught.value) == (
        "harness 'h' (no_such_package.agent:Agent, plugin 'mine') cannot be imported: "
        "ModuleNotFoundError: No module named 'no_such_package'"
    )


def test_a_component_of_another_kind_is_refused() -> None:
    registry = Registry()
    registry.harness("by_path", "agentcompass.plugins.benchmarks.qa:QuestionAnswering")
    with pytest.raises(PluginError) as caught:
        registry.get_harness("by_path")
    assert str(caught.value) == (
        "harness 'by_path' (agentcompass.plugins.benchmarks.qa:QuestionAnswering) is not a subclass of Harness"
    )
    with pytest.raises(PluginError, match="harness 'by_class' is not a subclass of Harness"):
        registry.harness("by_class", Sums)


def test_a_path_to_something_that_is_no_class_is_refused() -> None:
    registry = Registry()
    registry.benchmark("b", "agentcompass.plugins.benchmarks.qa:_accepted")
    with pytest.raises(PluginError, match="is not a subclass of Benchmark"):
        registry.get_benchmark("b")


def test_parameters_are_validated_by_the_component(registry: Registry) -> None:
    params = registry.validate_params(ComponentKind.BENCHMARK, "qa", {"path": "x.jsonl", "limit": 3})
    assert params.model_dump(exclude_defaults=True) == {"path": "x.jsonl", "limit": 3}


@pytest.mark.parametrize(
    ("component", "params", "message"),
    [
        ("qa", {"path": "x", "scorrer": "exact"}, "parameters of benchmark 'qa': unknown key 'scorrer'; did you mean 'scorer'?"),
        ("qa", {}, "parameters of benchmark 'qa': 'path' is required"),
        ("qa", {"path": "x", "limit": 0}, "parameters of benchmark 'qa': 'limit': Input should be greater than or equal to 1, got 0"),
        ("humaneval", {"instruction": "go"}, "parameters of benchmark 'humaneval': 'instruction': must contain {prompt}, got 'go'"),
    ],
)  # fmt: skip
def test_wrong_parameters_name_component_and_key(
    registry: Registry, component: str, params: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        registry.validate_params(ComponentKind.BENCHMARK, component, params)
    assert str(caught.value) == message


def test_a_recipe_class_can_be_registered_like_any_other() -> None:
    class Longer(Recipe[NoParams]):
        id = "longer"

        def matches(self, request: Any, task: Any, plan: Any) -> bool:
            return True

        def apply(self, plan: Any, request: Any, task: Any) -> Any:
            return plan

    registry = Registry()
    registry.recipe("longer", Longer)
    assert registry.get_recipe("longer") is Longer
