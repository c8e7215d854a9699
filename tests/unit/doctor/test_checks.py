"""The checks of the doctor, each on what it looks at."""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from temporalio.api.taskqueue.v1 import PollerInfo

from agentcompass.cli.doctor import DoctorReport, Finding, State
from agentcompass.cli.doctor.clock import check_clock
from agentcompass.cli.doctor.credentials import check_credentials
from agentcompass.cli.doctor.docker_engine import check_docker
from agentcompass.cli.doctor.installation import check_packages, check_plugins
from agentcompass.cli.doctor.machine import check_folder
from agentcompass.cli.doctor.text import plain_line

NOW = 1_700_000_000.0


def found(state: State) -> Finding:
    return Finding(
        area="a", name="n", state=state, detail="d", advice="do it" if state is not State.OK else ""
    )


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([], 0),
        ([State.OK, State.INFO, State.WARNING], 0),
        ([State.WARNING, State.FAILED], 1),
        ([State.OK, State.UNREACHABLE], 3),
        ([State.UNREACHABLE, State.FAILED], 1),
    ],
)
def test_exit_code_says_whether_something_has_to_be_mended(states: list[State], code: int) -> None:
    assert DoctorReport(findings=[found(state) for state in states]).exit_code == code


def test_a_line_ends_with_what_to_do() -> None:
    assert plain_line(found(State.FAILED)).endswith("-> do it")


def polls(*ages: float) -> list[PollerInfo]:
    pollers = [PollerInfo() for _ in ages]
    for poller, age in zip(pollers, ages, strict=True):
        poller.last_access_time.FromSeconds(int(NOW - age))
    return pollers


@pytest.mark.parametrize(
    ("ages", "state", "words"),
    [
        ((), State.INFO, "no worker polls"),
        ((200, 12), State.OK, "agrees"),
        ((40, -90), State.WARNING, "at least 90 s behind"),
        ((1300, 900), State.WARNING, "at least 600 s ahead"),
        ((120,), State.INFO, "silent worker"),
    ],
)
def test_clock_is_judged_by_the_freshest_poll(ages: tuple[float, ...], state: State, words: str) -> None:
    finding = check_clock(polls(*ages), NOW)
    assert finding.state is state and words in finding.detail


def test_credentials_are_told_by_name_and_never_by_value(tmp_path: Path) -> None:
    env = {
        "OPENAI_API_KEY": "sk-canary-0001",
        "ANTHROPIC_API_KEY": " sk-canary-0002\n",
        "GEMINI_API_KEY": "",
        "DAYTONA_API_KEY": "dtn-canary-0003",
        "MODAL_TOKEN_ID": "ak-canary-0004",
    }
    findings = check_credentials(env, tmp_path)
    states = {finding.name: finding.state for finding in findings}
    assert states == {
        "OPENAI_API_KEY": State.OK,
        "ANTHROPIC_API_KEY": State.WARNING,
        "GEMINI_API_KEY": State.WARNING,
        "models": State.INFO,
        "DAYTONA_API_KEY": State.OK,
        "Modal": State.WARNING,
    }
    assert "canary" not in "".join(finding.model_dump_json() for finding in findings)


def test_folder_that_is_not_there_is_judged_by_the_one_above_and_not_made(tmp_path: Path) -> None:
    findings = check_folder("results", tmp_path / "a" / "b")
    assert [finding.name for finding in findings] == ["results", "results, writing"]
    assert findings[1].state in (State.OK, State.WARNING)
    assert list(tmp_path.iterdir()) == []


def test_file_in_place_of_a_folder_fails(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("x")
    [finding] = check_folder("results", tmp_path / "results")
    assert finding.state is State.FAILED and finding.advice


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_that_cannot_be_written_fails(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert check_folder("results", tmp_path)[-1].state is State.FAILED
    finally:
        tmp_path.chmod(0o700)


def test_engine_that_does_not_answer_is_a_warning_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    [finding] = check_docker()
    assert finding.state is State.WARNING
    assert "No such file or directory" in finding.detail and "DOCKER_HOST" in finding.advice


def test_broken_plugin_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("acme", "no_such_module_acme:register", "agentcompass.plugins")
    builtin = EntryPoint("builtin", "agentcompass.plugins.builtin:register", "agentcompass.plugins")
    monkeypatch.setattr("agentcompass.plugins.registry.entry_points", lambda group: [broken, builtin])
    components, problem = check_plugins()
    assert components.state is State.OK
    assert problem.state is State.FAILED and "no_such_module_acme" in problem.detail


def test_packages_are_listed_with_their_versions() -> None:
    packages = check_packages()[0]
    assert packages.state is State.OK
    assert "temporalio 1." in packages.detail and "pytest" not in packages.detail
