"""Which analyzers look at the attempts of a request."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from agentcompass.activities.analysis import select_analyzers
from agentcompass.contracts import (
    AnalysisFinding,
    Analyzer,
    AttemptContext,
    ConfigurationError,
    Contract,
    NoParams,
    PluginError,
    RunRequest,
    RunResult,
    UnknownComponentError,
)
from agentcompass.plugins.registry import Registry


class Silent(Analyzer[NoParams]):
    """Finds nothing; the others differ in what they declare."""

    id = "silent"

    async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        return []


class Plain(Silent):
    id = "plain"
    family = "words"


class Better(Silent):
    id = "better"
    family = "words"
    priority = 5


class BestForOthers(Silent):
    id = "best_for_others"
    family = "words"
    priority = 9

    def matches(self, benchmark_id: str) -> bool:
        return benchmark_id != "bench"


class Alone(Silent):
    id = "alone"
    priority = -1


class JudgeParams(Contract):
    model: str


class Judge(Analyzer[JudgeParams]):
    id = "judge"
    Params: ClassVar[Any] = JudgeParams

    async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        return []


class Doubtful(Silent):
    id = "doubtful"

    def matches(self, benchmark_id: str) -> bool:
        raise RuntimeError("no idea")


def request(benchmark: str = "bench", *, enabled: bool = True, **analysis: Any) -> RunRequest:
    return RunRequest.model_validate(
        {
            "benchmark": {"id": benchmark},
            "harness": {"id": "h"},
            "environment": {"id": "e"},
            "model": {"id": "m"},
            "execution": {"enable_analysis": enabled, "analysis_params": analysis},
        }
    )


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    for analyzer in (Plain, Better, BestForOthers, Alone):
        made.analyzer(analyzer.id, analyzer)
    yield made


def ids(registry: Registry, run_request: RunRequest) -> list[str]:
    return [analyzer.id for analyzer in select_analyzers(run_request, registry)]


def test_of_a_family_the_matching_member_with_the_highest_priority_runs(registry: Registry) -> None:
    assert ids(registry, request()) == ["better", "alone"]
    assert ids(registry, request("other")) == ["best_for_others", "alone"]


def test_members_of_no_family_do_not_displace_each_other(registry: Registry) -> None:
    registry.analyzer("silent", Silent)
    assert ids(registry, request()) == ["better", "alone", "silent"]


def test_the_first_registered_of_equal_priority_runs(registry: Registry) -> None:
    class Equal(Better):
        id = "equal"

    registry.analyzer("equal", Equal)
    assert "equal" not in ids(registry, request())


def test_named_analyzers_are_chosen_from(registry: Registry) -> None:
    assert ids(registry, request(analyzers=["plain"])) == ["plain"]
    assert ids(registry, request(analyzers=["plain", "better"])) == ["better"]
    assert ids(registry, request(analyzers=["best_for_others"])) == []


def test_none_runs_when_analysis_is_off_or_the_list_is_empty(registry: Registry) -> None:
    assert ids(registry, request(enabled=False)) == []
    assert ids(registry, request(analyzers=[])) == []


def test_an_unknown_id_is_refused(registry: Registry) -> None:
    with pytest.raises(UnknownComponentError, match="unknown analyzer 'beter'; did you mean 'better'"):
        ids(registry, request(analyzers=["beter"]))
    with pytest.raises(UnknownComponentError, match="unknown analyzer 'x'"):
        ids(registry, request(params={"x": {}}))


def test_wrong_parameters_are_refused(registry: Registry) -> None:
    with pytest.raises(ConfigurationError, match="parameters of analyzer 'alone': unknown key 'colour'"):
        ids(registry, request(params={"alone": {"colour": 1}}))


def test_one_that_needs_parameters_runs_only_when_it_gets_them(registry: Registry) -> None:
    registry.analyzer("judge", Judge)
    assert "judge" not in ids(registry, request())
    assert "judge" in ids(registry, request(params={"judge": {"model": "m"}}))
    with pytest.raises(ConfigurationError, match="'model' is required"):
        ids(registry, request(analyzers=["judge"]))


def test_a_broken_one_is_left_out_unless_it_is_named(registry: Registry) -> None:
    registry.analyzer("gone", "no_such_package:Gone")
    registry.analyzer("doubtful", Doubtful)
    assert ids(registry, request()) == ["better", "alone"]
    with pytest.raises(PluginError, match="analyzer 'gone'"):
        ids(registry, request(analyzers=["gone"]))
    with pytest.raises(PluginError, match="'doubtful': matches failed: RuntimeError: no idea"):
        ids(registry, request(analyzers=["doubtful"]))
