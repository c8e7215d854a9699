"""A third party's package, installed into a temporary folder, enters through its entry point."""

import shutil
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from agentcompass.contracts import EnvironmentSpec, ExecutionPlan, RunRequest, RunResult, TaskSpec
from agentcompass.plugins.registry import ComponentKind, Registry, load_registry
from agentcompass.plugins.testing import RecordingContext

SOURCE = Path(__file__).parents[2] / "support" / "extension_package"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What pip leaves: the package beside a ``dist-info`` folder with its entry points."""
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
    shutil.copytree(SOURCE / "acme_evaluation", tmp_path / "acme_evaluation")
    info = tmp_path / "acme_evaluation-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project["entry-points"]
    lines = [
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items())
        for group, points in groups.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme_evaluation"]:
        del sys.modules[name]


@pytest.fixture
def registry(installed: Path) -> Registry:
    return load_registry()


def _request() -> RunRequest:
    return RunRequest.model_validate(
        {
            "benchmark": {"id": "csv_totals"},
            "harness": {"id": "acme_agent"},
            "environment": {"id": "ssh"},
            "model": {"id": "m"},
        }
    )


def test_the_entry_point_is_found_among_the_installed_ones(installed: Path) -> None:
    points = entry_points(group="agentcompass.plugins", name="acme")
    assert [point.value for point in points] == ["acme_evaluation.plugin:register"]


def test_one_component_of_every_kind_is_registered(registry: Registry) -> None:
    assert registry.broken == []
    mine = {
        kind.value: [item.id for item in registry.registrations(kind) if item.plugin == "acme"]
        for kind in ComponentKind
    }
    assert mine == {
        "benchmark": ["csv_totals"],
        "harness": ["acme_agent"],
        "environment": ["ssh"],
        "recipe": ["time_for_large_tables"],
        "analyzer": ["answer_length"],
    }


def test_nothing_is_imported_before_it_is_used(registry: Registry) -> None:
    assert "acme_evaluation.environment" not in sys.modules
    registry.get_environment("ssh")
    assert "acme_evaluation.environment" in sys.modules


def test_every_component_has_its_id_and_a_description(registry: Registry) -> None:
    for kind in ComponentKind:
        for item in registry.registrations(kind):
            if item.plugin == "acme":
                component = registry.get(kind, item.id)
                assert component.id == item.id
                assert component.description


def test_its_recipe_changes_the_plan_of_matching_tasks_only(registry: Registry) -> None:
    recipe = registry.get_recipe("time_for_large_tables")
    made = recipe(registry.validate_params(ComponentKind.RECIPE, "time_for_large_tables", {}))
    plan = ExecutionPlan(task_id="t", attempt=1, environment=EnvironmentSpec(id="ssh"))
    small, large = (TaskSpec(task_id="t", category=name) for name in ("small", "large"))
    assert not made.matches(_request(), small, plan)
    assert made.matches(_request(), large, plan)
    assert made.apply(plan, _request(), large).benchmark_plan.run_timeout_seconds == 3600.0
    assert plan.benchmark_plan.run_timeout_seconds is None


async def test_its_analyzer_finds_long_answers(registry: Registry) -> None:
    params = registry.validate_params(ComponentKind.ANALYZER, "answer_length", {"max_chars": 3})
    analyzer = registry.get_analyzer("answer_length")(params)
    context = RecordingContext()
    assert await analyzer.analyze(RunResult(task_id="t", final_answer="abc"), context) == []
    [finding] = await analyzer.analyze(RunResult(task_id="t", final_answer="abcd"), context)
    assert (finding.label, finding.value) == ("long_answer", 4)


def test_it_is_gone_when_it_is_not_installed() -> None:
    assert list(entry_points(group="agentcompass.plugins", name="acme")) == []
