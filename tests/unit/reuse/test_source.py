"""Which run is continued, and why another one is refused."""

import json
import shutil

import pytest
from reuse_runs import LABEL, Runs, contents

from agentcompass.activities.reuse import find_source, settled_source
from agentcompass.contracts import RunRequest, Severity, UsageError
from agentcompass.contracts.records import ReusedFrom


def latest(runs: Runs, request: RunRequest | None = None) -> str | None:
    found = find_source(request or runs.request(runtime={"reuse": True}), runs.results, runs.owner("new"))
    return found.run_dir.name if found else None


def refusal(runs: Runs, request: RunRequest) -> str:
    with pytest.raises(UsageError) as caught:
        find_source(request, runs.results, runs.owner("new"))
    return str(caught.value)


async def test_newest_run_is_the_latest_whatever_its_name(runs: Runs) -> None:
    for name in ("z", "a", "m"):
        runs.finish(await runs.start(name), "q1")
    assert latest(runs) == "m"


async def test_run_without_a_finished_task_is_never_the_latest(runs: Runs) -> None:
    runs.finish(await runs.start("good"), "q1")
    await runs.start("empty")
    assert latest(runs) == "good"


async def test_run_of_failed_tasks_only_is_the_latest_one_all_the_same(runs: Runs) -> None:
    runs.finish(await runs.start("good"), "q1")
    runs.finish(await runs.start("failed"), "q1", severity=Severity.FATAL)
    assert latest(runs) == "failed"


async def test_run_that_was_stopped_in_its_first_evaluation_is_the_latest(runs: Runs) -> None:
    runs.leave_unscored(await runs.start("stopped"), "q1")
    assert latest(runs) == "stopped"


async def test_copy_of_a_run_beside_it_is_not_the_latest(runs: Runs) -> None:
    original = await runs.start("old")
    runs.finish(original, "q1")
    shutil.copytree(original.run_dir, original.run_dir.with_name("old_analysis_1"))
    assert latest(runs) == "old"


async def test_run_that_asks_is_not_its_own_source(runs: Runs) -> None:
    runs.finish(await runs.start("old"), "q1")
    runs.finish(await runs.start("new"), "q1")
    assert latest(runs) == "old"


async def test_run_that_was_killed_while_it_took_over_does_not_hide_its_source(runs: Runs) -> None:
    runs.finish(await runs.start("old"), "q1")
    partial = await runs.start("partial", reused_from=ReusedFrom(run_id="old"))
    runs.finish(partial, "q2")
    assert latest(runs) == "old"
    partial.mark_taken_over()
    assert latest(runs) == "partial"


def test_first_run_has_nothing_to_reuse(runs: Runs) -> None:
    assert latest(runs) is None
    assert not runs.results.exists()


async def test_nothing_is_reused_unless_asked_for(runs: Runs) -> None:
    runs.finish(await runs.start("old"), "q1")
    assert latest(runs, runs.request()) is None


async def test_run_with_an_unreadable_run_info_is_passed_over(runs: Runs) -> None:
    runs.finish(await runs.start("good"), "q1")
    broken = await runs.start("broken")
    runs.finish(broken, "q1")
    (broken.run_dir / "run_info.json").write_text("{")
    assert latest(runs) == "good"


async def test_named_run_must_exist(runs: Runs) -> None:
    runs.finish(await runs.start("old"), "q1")
    text = refusal(runs, runs.request(runtime={"reuse": True, "reuse_run_id": "odl"}))
    assert (
        text
        == f"cannot reuse run 'odl': {runs.results / LABEL / 'odl'} does not exist; the latest runs there are old"
    )


async def test_run_cannot_be_continued_in_its_own_directory(runs: Runs) -> None:
    runs.finish(await runs.start("old"), "q1")
    request = runs.request(runtime={"reuse": True, "reuse_run_id": "old"}, output={"run_id": "old"})
    assert "in its own directory; choose another --run-id" in refusal(runs, request)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (
            {"benchmark": {"id": "command", "params": {"path": "x"}}},
            "about benchmark 'qa', this request about 'command'",
        ),
        ({"model": {"id": "n"}}, "about model 'm', this request about 'n'"),
        ({"harness": {"id": "nop"}}, "about harness 'oracle', this request about 'nop'"),
        ({"execution": {"attempts": {"k": 3, "strategy": "pass"}}}, "follow the strategy 'avg'"),
        ({"execution": {"attempts": {"k": 1}}}, "it has k = 2 attempts a task; k can be kept or raised"),
    ],
)
async def test_run_of_something_else_is_refused_with_the_reason(
    runs: Runs, parts: dict[str, object], reason: str
) -> None:
    two = {"execution": {"attempts": {"k": 2}}}
    launched = {"metadata": {"request_name": LABEL}, "runtime": {"reuse": True}}
    store = await runs.start("old", runs.request(**two))
    runs.finish(store, "q1")
    before = contents(runs.results)
    text = refusal(runs, runs.request(**{**two, **launched, **parts}))
    assert text.startswith(f"run 'old' in {runs.results / LABEL} cannot be reused: ")
    assert reason in text
    assert contents(runs.results) == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"schema_version": "agentcompass.run_info.v9"},
            "schema_version 'agentcompass.run_info.v9' is not one of",
        ),
        ({"request": {"benchmark": {"id": "qa"}}}, "about model None"),
        ({"request": {"execution": {"attempts": {"k": "many"}}}}, "its attempt plan {'k': 'many'}"),
        ({"request": []}, "not a valid RunInfo: request"),
    ],
)
async def test_run_info_of_another_kind_is_refused_with_the_reason(
    runs: Runs, change: dict[str, object], reason: str
) -> None:
    store = await runs.start("old")
    runs.finish(store, "q1")
    file = store.run_dir / "run_info.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    assert reason in refusal(runs, runs.request(runtime={"reuse": True, "reuse_run_id": "old"}))


async def test_run_of_an_older_version_can_be_named(runs: Runs) -> None:
    store = await runs.start("old")
    file = store.run_dir / "run_info.json"
    older = {**json.loads(file.read_text()), "schema_version": "agentcompass.run_info.v1"}
    del older["request"]["execution"]["attempts"]
    file.write_text(json.dumps(older))
    assert latest(runs, runs.request(runtime={"reuse": True, "reuse_run_id": "old"})) == "old"


async def test_second_try_stays_with_the_source_of_the_first(runs: Runs) -> None:
    runs.finish(await runs.start("old"), "q1")
    request = runs.request(runtime={"reuse": True})
    found = find_source(request, runs.results, runs.owner("new"))
    assert found is not None
    new = await runs.start("new", request)
    info = new.files.run_info()
    new.files.start_run_info(info.model_copy(update={"reused_from": found.reused_from}))
    runs.finish(await runs.start("newer"), "q1")
    again = find_source(request, runs.results, runs.owner("new"))
    assert again is not None and again.run_dir.name == "newer"
    settled = settled_source(new, again)
    assert settled is not None and settled.run_dir == found.run_dir


async def test_first_try_that_found_nothing_settles_that_too(runs: Runs) -> None:
    new = await runs.start("new")
    runs.finish(await runs.start("newer"), "q1")
    found = find_source(runs.request(runtime={"reuse": True}), runs.results, runs.owner("new"))
    assert found is not None
    assert settled_source(new, found) is None
