"""What a provider is asked for in each phase, and budgets that no other test lets expire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from row_runs import Rows, finish, make_command_line, start_rows

ALLOWLIST = {"network_mode": "allowlist", "allowed_hosts": ["a.org"]}
POLICIES = {"run_network_policy": "no-network", "verifier_network_policy": ALLOWLIST}
MODEL = ("--model-base-url", "http://models.example:8000/v1")
FOREVER = [{"id": "endless", "do": {"collect_result": "forever"}}]

QUEUE = [
    {"id": str(number), "mode": "reuse", "run_timeout_seconds": 3.0, "do": {"execute_task": "sh:sleep 1"}}
    for number in range(5)
]
"""The last one waits for four seconds, which is more than its budget."""


@pytest.fixture(scope="module")
def runs(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Rows]]:
    """All at the same time, because a command line mostly waits."""
    lines = {}

    def switching(
        name: str, tasks: list[dict[str, Any]], *options: str, env: str = "switching", **params: Any
    ) -> Rows:
        line = lines[name]
        log = {"log": str(line.folder / "policies.jsonl")}
        # Of two --env flags the last one holds.
        given = ("--env", env, "--env-params", json.dumps({**log, **params}))
        return finish(line, start_rows(line, tasks, *given, *options))

    def collecting(name: str, *_: Any) -> Rows:
        limit = {"harness_result_timeout_seconds": 0.5}
        return finish(lines[name], start_rows(lines[name], FOREVER, execution=limit))

    def hanging(name: str, *_: Any) -> Rows:
        tasks = [{"id": str(number), "mode": "reuse", "run_timeout_seconds": 0.5} for number in range(3)]
        return finish(lines[name], start_rows(lines[name], tasks, harness="rows_hanging"))

    plans = {
        "reuse": lambda name: switching(name, [{"id": "t", "mode": "reuse"}], **POLICIES),
        "kept": lambda name: switching(
            name, [{"id": "t", "mode": "reuse"}], "--keep-environment", **POLICIES
        ),
        "fresh": lambda name: switching(name, [{"id": "t", "mode": "fresh"}], **POLICIES),
        "none": lambda name: switching(name, [{"id": "t", "mode": "none"}], **POLICIES),
        "same": lambda name: switching(name, [{"id": "t", "mode": "reuse"}], network_policy="no-network"),
        "model": lambda name: switching(name, [{"id": "t", "mode": "reuse"}], *MODEL, **POLICIES),
        "model and allowlist": lambda name: switching(
            name, [{"id": "t", "mode": "fresh"}], *MODEL, network_policy=ALLOWLIST
        ),
        "model, no switching": lambda name: switching(
            name, [{"id": "t", "mode": "reuse"}], *MODEL, env="fixed", network_policy="no-network"
        ),
        "build": lambda name: switching(
            name, [{"id": "t"}], open_seconds=60, setup={"build_timeout_seconds": 0.5}
        ),
        "serial": lambda name: switching(
            name, [{"id": "a"}, {"id": "b", "mode": "fresh"}, {"id": "c"}], "--task-concurrency", "1"
        ),
        "queue": lambda name: switching(name, QUEUE, "--provider-limit", "switching=1"),
        "collect": collecting,
        "hanging": hanging,
    }
    lines.update({name: make_command_line(embedded_home, tmp_path_factory.mktemp(name)) for name in plans})
    try:
        with ThreadPoolExecutor(4) as pool:
            yield dict(zip(plans, pool.map(lambda name: plans[name](name), plans), strict=True))
    finally:
        for line in lines.values():
            line.end_all()


def policies(run: Rows) -> list[str]:
    """Events in their order; those of the verifier's own environment are marked."""
    log = run.run_dir.parents[2] / "policies.jsonl"
    found = [json.loads(line) for line in log.read_text().splitlines()]
    return [f"{'verifier: ' if item[0].endswith('-v') else ''}{item[1]} {item[2]}".strip() for item in found]


def kinds(run: Rows) -> list[str]:
    """Openings, switches and closings in their order, of whichever environment."""
    return [event.removeprefix("verifier: ").partition(" ")[0] for event in policies(run)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reuse", ["open public", "switch no-network", "switch allowlist a.org", "close"]),
        # One that is kept is left with the policy that it began with.
        ("kept", ["open public", "switch no-network", "switch allowlist a.org", "switch public"]),
        (
            "fresh",
            [
                *("open public", "switch no-network", "close"),
                *("verifier: open public", "verifier: switch allowlist a.org", "verifier: close"),
            ],
        ),
        ("none", ["open public", "switch no-network", "close"]),
        ("same", ["open no-network", "close"]),
        # The model's endpoint can be reached in the run phase, and in no other.
        (
            "model",
            ["open public", "switch allowlist models.example:8000", "switch allowlist a.org", "close"],
        ),
        (
            "model and allowlist",
            [
                *("open allowlist a.org", "switch allowlist a.org models.example:8000", "close"),
                *("verifier: open allowlist a.org", "verifier: close"),
            ],
        ),
        ("model, no switching", ["open allowlist models.example:8000", "close"]),
    ],
)
def test_each_phase_has_its_own_network_policy(runs: dict[str, Rows], name: str, expected: list[str]) -> None:
    runs[name].ended.expect(0)
    assert policies(runs[name]) == expected


def test_the_model_s_address_is_no_part_of_the_plan(runs: dict[str, Rows]) -> None:
    record = runs["model and allowlist"].attempt("t")
    assert record["plan"]["run_network_policy"]["allowed_hosts"] == ["a.org"]


def test_the_environment_of_an_attempt_is_gone_before_the_next_attempt_begins(runs: dict[str, Rows]) -> None:
    runs["serial"].ended.expect(0)
    assert kinds(runs["serial"]) == ["open", "close"] * 4


def test_waiting_for_a_provider_is_not_charged(runs: dict[str, Rows]) -> None:
    run = runs["queue"]
    run.ended.expect(0)
    assert [run.issues(task["id"]) for task in QUEUE] == [[]] * 5
    assert kinds(run) == ["open", "close"] * 5


def test_an_expired_build_budget_names_itself_and_what_was_begun_is_removed(runs: dict[str, Rows]) -> None:
    run = runs["build"]
    run.ended.expect(1)
    assert run.issues("t") == [("fatal", "setup", "environment_open_failed")]
    assert run.message("t") == "the build budget of 0.5 s (setup.build_timeout_seconds) is used up"
    assert policies(run) == ["open public", "close"]


def test_an_expired_budget_for_collecting_the_result_names_itself(runs: dict[str, Rows]) -> None:
    run = runs["collect"]
    assert run.issues("endless") == [("fatal", "collect", "result_collection_failed")]
    assert run.message("endless") == (
        "the budget of 0.5 s for collecting the result (harness_result_timeout_seconds) is used up"
    )
    assert (run.state("endless"), run.correct("endless")) == ("invalidated", None)


@pytest.fixture
def rows_command_line(embedded_home: Path, tmp_path: Path) -> Iterator[CommandLine]:
    command_line = make_command_line(embedded_home, tmp_path)
    yield command_line
    command_line.end_all()


def test_a_record_that_cannot_be_read_is_left_out_by_name(rows_command_line: CommandLine) -> None:
    run = finish(rows_command_line, start_rows(rows_command_line, [{"id": "good"}, {"id": "torn"}]))
    run.ended.expect(0)
    file = run.run_dir / "details" / "torn.json"
    file.write_bytes(file.read_bytes()[:-20])
    ended = rows_command_line.run("summary", str(run.run_dir), "--max-unevaluated", "0").expect(1)
    assert "1/2 tasks evaluated" in ended.stdout
    assert "1 NOT evaluated: record_unreadable 1" in ended.stdout
    [exclusion] = run.metrics["exclusions"]
    assert (exclusion["task_id"], exclusion["state"]) == ("torn", "unavailable")
    assert exclusion["reason"].startswith("details/torn.json: ")


def test_a_hook_that_cannot_be_ended_does_not_hold_up_its_attempt(runs: dict[str, Rows]) -> None:
    run = runs["hanging"]
    run.ended.expect(0)  # its worker has left, too, although three threads of it hang
    for task in "012":
        assert run.issues(task) == [
            ("error", "run", "harness_timeout"),
            ("warning", "cleanup", "cleanup_failed"),
        ]
        assert run.correct(task) is True
    [_, leak] = run.attempt("0")["issues"]
    assert leak["message"] == (
        "execute_task did not end when it was cancelled; it goes on in its worker, and nobody listens to it"
    )
