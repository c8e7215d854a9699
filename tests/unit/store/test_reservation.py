"""One driver per run directory; a refusal leaves nothing behind."""

import os
from collections.abc import Callable
from datetime import datetime
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path

import pytest

from agentcompass.activities.store import DriverRecord, RunStore, list_runs
from agentcompass.contracts import RunDirectoryError, RunRequest, UsageError
from agentcompass.contracts.records import RunInfo

NOON = datetime(2026, 1, 2, 12, 0, 0)
OTHER = DriverRecord(launch_id="launch-2", request_key="0-one")


def everything(path: Path) -> list[str]:
    return sorted(item.relative_to(path).as_posix() for item in path.rglob("*"))


def test_reserved_directory_holds_its_driver_and_a_log(tmp_path: Path, owner: DriverRecord) -> None:
    store = RunStore.reserve(tmp_path / "results/one/run1", owner=owner)
    assert store.driver() == owner
    log = next((store.run_dir / "logs").iterdir()).name
    assert log.endswith(".log")
    assert everything(store.run_dir) == [".state", ".state/driver.json", "logs", f"logs/{log}"]
    assert [path.name for path in store.run_dir.parent.iterdir()] == ["run1"]


def test_same_driver_finds_its_directory_again(tmp_path: Path, owner: DriverRecord) -> None:
    RunStore.reserve(tmp_path / "run1", owner=owner)
    before = everything(tmp_path)
    again = owner.model_copy(update={"pid": 7, "host": "elsewhere"})
    assert RunStore.reserve(tmp_path / "run1", owner=again).driver() == owner
    assert everything(tmp_path) == before


def test_another_driver_is_refused_by_name_of_the_first(tmp_path: Path, owner: DriverRecord) -> None:
    RunStore.reserve(tmp_path / "run1", owner=owner)
    before = everything(tmp_path)
    with pytest.raises(RunDirectoryError, match=r"held by launch 'launch-1', request '0-one'.*host-a"):
        RunStore.reserve(tmp_path / "run1", owner=OTHER)
    assert everything(tmp_path) == before


def test_directory_with_foreign_files_is_refused(tmp_path: Path, owner: DriverRecord) -> None:
    (tmp_path / "run1").mkdir()
    (tmp_path / "run1" / "thesis.tex").touch()
    with pytest.raises(RunDirectoryError, match="exists already and is not empty"):
        RunStore.reserve(tmp_path / "run1", owner=owner)
    assert everything(tmp_path) == ["run1", "run1/thesis.tex"]


def test_file_in_place_of_the_directory_is_refused(tmp_path: Path, owner: DriverRecord) -> None:
    (tmp_path / "run1").touch()
    with pytest.raises(RunDirectoryError, match="exists already"):
        RunStore.reserve(tmp_path / "run1", owner=owner)


def test_unwritable_results_directory_is_refused_and_nothing_is_left(
    tmp_path: Path, owner: DriverRecord
) -> None:
    (tmp_path / "results").touch()  # a file: not even root can make a directory below it
    with pytest.raises(RunDirectoryError, match="cannot be written"):
        RunStore.reserve(tmp_path / "results" / "one" / "run1", owner=owner)
    assert everything(tmp_path) == ["results"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_results_directory_is_refused(tmp_path: Path, owner: DriverRecord) -> None:
    (tmp_path / "results").mkdir(mode=0o500)
    with pytest.raises(RunDirectoryError, match="Permission denied"):
        RunStore.reserve(tmp_path / "results" / "one" / "run1", owner=owner)


def test_run_that_is_over_is_not_driven_again(tmp_path: Path, owner: DriverRecord) -> None:
    store = RunStore.reserve(tmp_path / "run1", owner=owner)
    store.files.start_run_info(RunInfo(run_id="run1", started_at="2026-01-02T12:00:00+00:00", request={}))
    store.files.finish_run_info("completed")
    with pytest.raises(RunDirectoryError, match="holds a run that is over"):
        RunStore.reserve(tmp_path / "run1", owner=owner)


def test_request_is_placed_by_model_benchmark_harness_and_time(
    tmp_path: Path, owner: DriverRecord, request_one: RunRequest
) -> None:
    store = RunStore.reserve_for(request_one, tmp_path, owner=owner, started_at=NOON)
    assert store.run_dir == tmp_path / "org_model_bench_harness" / "20260102_120000"
    assert [path.name for path in (store.run_dir / "logs").iterdir()] == ["20260102_120000.log"]


def test_time_that_is_taken_moves_on_by_seconds_and_a_repetition_finds_its_own(
    tmp_path: Path, owner: DriverRecord, request_one: RunRequest
) -> None:
    first = RunStore.reserve_for(request_one, tmp_path, owner=owner, started_at=NOON)
    second = RunStore.reserve_for(request_one, tmp_path, owner=OTHER, started_at=NOON)
    assert (first.run_id, second.run_id) == ("20260102_120000", "20260102_120001")
    again = RunStore.reserve_for(request_one, tmp_path, owner=OTHER, started_at=NOON)
    assert again.run_id == "20260102_120001"


def test_explicit_run_id_that_is_taken_is_refused(
    tmp_path: Path, owner: DriverRecord, request_one: RunRequest
) -> None:
    request_one.output.run_id = "base"
    RunStore.reserve_for(request_one, tmp_path, owner=owner, started_at=NOON)
    with pytest.raises(RunDirectoryError, match="choose another --run-id"):
        RunStore.reserve_for(request_one, tmp_path, owner=OTHER, started_at=NOON)


def test_request_that_would_escape_is_refused_before_anything_is_written(
    tmp_path: Path, owner: DriverRecord, request_one: RunRequest
) -> None:
    request_one.output.run_name = "../outside"
    with pytest.raises(UsageError):
        RunStore.reserve_for(request_one, tmp_path / "results", owner=owner, started_at=NOON)
    assert everything(tmp_path) == []


def _reserve(path: Path, number: int, results: "Queue[int]") -> None:
    try:
        RunStore.reserve(path, owner=DriverRecord(launch_id=str(number), request_key="k"))
        results.put(number)
    except RunDirectoryError:
        results.put(-1)


def test_of_many_drivers_at_once_one_wins(tmp_path: Path) -> None:
    context = get_context("fork")
    results: Queue[int] = context.Queue()
    path = tmp_path / "run1"
    processes = [context.Process(target=_reserve, args=(path, number, results)) for number in range(6)]
    for process in processes:
        process.start()
    outcomes = [results.get(timeout=30) for _ in processes]
    for process in processes:
        process.join()
    winners = [number for number in outcomes if number >= 0]
    driver = RunStore(path).driver()
    assert len(winners) == 1 and driver is not None and driver.launch_id == str(winners[0])
    assert [item.name for item in tmp_path.iterdir()] == ["run1"]


def test_reservation_killed_at_any_step_is_all_or_nothing(
    tmp_path: Path, owner: DriverRecord, killed_at_step: Callable[[int, Callable[[], object]], bool]
) -> None:
    for step in range(100):
        path = tmp_path / "results" / f"run{step}"
        killed = killed_at_step(step, lambda path=path: RunStore.reserve(path, owner=owner))
        assert not path.exists() or RunStore(path).driver() == owner
        assert RunStore.reserve(path, owner=owner).driver() == owner
        if not killed:
            assert step > 4
            return
    raise AssertionError("reserving never ended")


def test_runs_are_listed_newest_first_without_broken_ones(tmp_path: Path) -> None:
    for name, started in [("a", "2026-01-03"), ("b", "2026-01-01"), ("c", "2026-01-02")]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "run_info.json").write_text(f'{{"started_at": "{started}"}}')
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run_info.json").write_text('{"sta')
    (tmp_path / ".reserving-1-a").mkdir()
    assert [path.name for path in list_runs(tmp_path)] == ["a", "c", "b"]
    assert list_runs(tmp_path / "nowhere") == []
