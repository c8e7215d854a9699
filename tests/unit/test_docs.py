"""The documentation says what is true: generated pages are current, links resolve, nothing is left out."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import agentcompass
from agentcompass.activities.classification import UNCLASSIFIED
from agentcompass.activities.store.schemas import SCHEMAS
from agentcompass.cli.config.checks import check_component_ids, check_file
from agentcompass.cli.config.documents import parse_yaml
from agentcompass.cli.config.launch_file import LaunchArguments, resolve_launch
from agentcompass.cli.config.secret_store import leave_literal
from agentcompass.contracts.issues import ISSUE_CODES
from agentcompass.contracts.records import (
    AttemptRecord,
    EventName,
    ProgressEvent,
    ProgressSnapshot,
    RetryRecord,
    RunInfo,
    RunParams,
    TaskRecord,
)
from agentcompass.contracts.search_attributes import SEARCH_ATTRIBUTES
from agentcompass.plugins.registry import ComponentKind, load_registry

ROOT = Path(agentcompass.__file__).resolve().parent
DOCS = ROOT / "docs"
PAGES = sorted(
    [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "perf").glob("*.md"), *(ROOT / "deploy").glob("*.md")]
)
USER_FILES = (RunInfo, RunParams, TaskRecord, AttemptRecord, ProgressSnapshot, ProgressEvent, RetryRecord)

_FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def configuration_examples() -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", text_of("configuration.md"), re.DOTALL | re.MULTILINE)


def generate_cli() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_cli", DOCS / "generate_cli.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def anchors_of(page: Path) -> set[str]:
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_cli_page_is_what_the_generator_writes() -> None:
    assert text_of("cli.md") == generate_cli().render(), "run: python docs/generate_cli.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert broken == []


def test_issue_page_has_every_code_with_its_meaning() -> None:
    page = text_of("issues.md")
    missing = [code for code, meaning in ISSUE_CODES.items() if f"| `{code}` | {meaning} |" not in page]
    assert missing == []


def test_issue_page_says_what_an_exception_becomes_in_each_phase() -> None:
    page = text_of("issues.md")
    rows = [f"| `{phase}` | {found.severity} | `{found.code}` |" for phase, found in UNCLASSIFIED.items()]
    assert [row for row in rows if row not in page] == []


@pytest.mark.parametrize("model", USER_FILES, ids=lambda model: model.__name__)
def test_run_directory_page_names_every_field(model: type[RunInfo]) -> None:
    page = text_of("run-directory.md")
    assert [name for name in model.model_fields if f"`{name}`" not in page] == []


def test_run_directory_page_names_every_event_and_links_every_schema() -> None:
    page = text_of("run-directory.md")
    assert [event for event in EventName.__args__ if f"`{event}`" not in page] == []
    assert [name for name in SCHEMAS if f"(schemas/{name}.schema.json)" not in page] == []


def test_operating_page_names_every_search_attribute() -> None:
    page = text_of("operating.md")
    assert [name for name in SEARCH_ATTRIBUTES if f"`{name}`" not in page] == []


def test_configuration_example_is_accepted() -> None:
    document = parse_yaml(configuration_examples()[0], "configuration.md")
    registry = load_registry()
    check_file(document)
    assert list(check_component_ids([document], registry)) == []
    sections = {
        ComponentKind.BENCHMARK: document.data["benchmarks"],
        ComponentKind.HARNESS: document.data["harnesses"],
    }
    for kind, named in sections.items():
        assert isinstance(named, dict)
        for name, params in named.items():
            registry.validate_params(kind, name, params)


def test_launch_file_example_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_KEY", "sk-of-the-example")
    file = tmp_path / "weekly.yaml"
    file.write_text(configuration_examples()[1], encoding="utf-8")
    launch = resolve_launch(file, LaunchArguments(), store_literal=leave_literal, cwd=tmp_path)
    assert [run.metadata.request_name for run in launch.spec.requests] == ["humaneval-small", "questions"]


def test_configuration_page_names_the_parameters_of_built_in_components() -> None:
    registry, page = load_registry(), text_of("configuration.md")
    for kind in (ComponentKind.BENCHMARK, ComponentKind.HARNESS, ComponentKind.ENVIRONMENT):
        for name in registry.ids(kind):
            fields = registry.get(kind, name).Params.model_fields
            row = next((line for line in page.splitlines() if line.startswith(f"| `{name}` |")), "")
            assert [field for field in fields if f"`{field}`" not in row] == [], name


def test_readme_names_every_built_in_component() -> None:
    registry, page = load_registry(), (ROOT / "README.md").read_text(encoding="utf-8")
    for kind in (ComponentKind.BENCHMARK, ComponentKind.HARNESS, ComponentKind.ENVIRONMENT):
        assert [name for name in registry.ids(kind) if f"`{name}`" not in page] == []
