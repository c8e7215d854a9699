"""The built-in set as a whole."""

from typing import Any

import pytest

from agentcompass.contracts import RunResult, Trajectory
from agentcompass.plugins.registry import ComponentKind, Registry

IDS = ["exceptions", "empty_output", "truncation", "tool_repetition", "latency", "usage"]


def test_the_basic_set_is_registered(registry: Registry) -> None:
    builtin = [item.id for item in registry.registrations(ComponentKind.ANALYZER) if item.plugin == "builtin"]
    assert builtin == IDS


@pytest.mark.parametrize("name", IDS)
def test_each_has_a_family_of_its_own_that_others_can_join(registry: Registry, name: str) -> None:
    analyzer = registry.get_analyzer(name)
    assert (analyzer.id, analyzer.family, analyzer.priority) == (name, name, 0)
    assert analyzer.description


@pytest.mark.parametrize("name", IDS)
async def test_each_copes_with_a_result_that_holds_nothing(findings: Any, name: str) -> None:
    bare = RunResult(task_id="t", final_answer="x")
    assert await findings(name, bare) == []
    assert await findings(name, bare.model_copy(update={"trajectory": Trajectory()})) == []


@pytest.mark.parametrize("name", IDS)
def test_each_refuses_unknown_parameters(make: Any, name: str) -> None:
    with pytest.raises(Exception, match="unknown key 'colour'"):
        make(name, colour=1)
