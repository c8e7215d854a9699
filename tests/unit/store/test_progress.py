"""Progress on disk: nothing lost, nothing twice, by several writers, with one killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from agentcompass.activities.redaction import Redactor
from agentcompass.activities.store import (
    EventSource,
    ProgressWriter,
    RequestState,
    files,
    read_events,
    read_snapshot,
    rebuild_snapshot,
)
from agentcompass.activities.store.key_set import KeySet
from agentcompass.activities.store.progress_log import ProgressLog
from agentcompass.contracts import NetworkPolicy, RunRequest, Severity
from agentcompass.contracts.launch import LaunchRuntime
from agentcompass.contracts.records import PlanSummary, ProgressEvent

SOURCE = EventSource(run_id="run1")


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "run1").mkdir()
    return tmp_path / "run1"


def lines(run_dir: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run_dir / "progress.jsonl").read_text().splitlines()]


def task_events(task: str, total: int = 10) -> list[ProgressEvent]:
    return [
        SOURCE.task_started(task, "c", index=0, total=total),
        SOURCE.attempt_started(task, "c", attempt=1),
        SOURCE.phase_changed(task, "c", attempt=1, execution=1, phase="run_harness"),
        SOURCE.attempt_finished(task, "c", attempt=1, failed=False),
        SOURCE.partial_saved(task, "c", attempt=1),
        SOURCE.task_finished(task, "c", index=0, total=total, severity=None),
    ]


async def test_emitted_events_are_in_the_file_when_emit_returns(run_dir: Path) -> None:
    writer = ProgressWriter(run_dir)
    await writer.emit([SOURCE.tasks_loaded(2), SOURCE.task_started("a", None, index=0, total=2)])
    assert [(line["seq"], line["event"]) for line in lines(run_dir)] == [
        (1, "tasks_loaded"),
        (2, "task_started"),
    ]
    await writer.close()


async def test_line_has_every_field_and_null_where_there_is_nothing(run_dir: Path) -> None:
    writer = ProgressWriter(run_dir)
    await writer.emit([SOURCE.summary_started()])
    await writer.close()
    line = lines(run_dir)[0]
    assert isinstance(line.pop("timestamp"), float)
    assert line == {
        "seq": 1,
        "key": "summary_started:",
        "run_id": "run1",
        "event": "summary_started",
        "task_id": None,
        "category": None,
        "attempt": None,
        "phase": None,
        "status": None,
        "payload": {},
        "orchestration_id": None,
        "request_key": None,
        "request_name": None,
        "request_index": None,
    }


async def test_event_of_a_repeated_activity_is_dropped_also_after_a_restart(run_dir: Path) -> None:
    first = ProgressWriter(run_dir)
    await first.emit(task_events("a"))
    await first.emit(task_events("a") + task_events("a"))
    await first.close()
    second = ProgressWriter(run_dir)
    await second.emit([*task_events("a"), SOURCE.summary_started()])
    await second.close()
    assert [line["seq"] for line in lines(run_dir)] == [1, 2, 3, 4, 5, 6, 7]
    snapshot = read_snapshot(run_dir)
    assert snapshot is not None and (snapshot.finished_tasks, snapshot.attempts_started) == (1, 1)


async def test_many_emits_at_once_are_all_written(run_dir: Path) -> None:
    writer = ProgressWriter(run_dir)
    await asyncio.gather(*(writer.emit([event]) for i in range(50) for event in task_events(f"t{i}")))
    await writer.close()
    assert [line["seq"] for line in lines(run_dir)] == list(range(1, 301))
    snapshot = read_snapshot(run_dir)
    assert snapshot is not None and snapshot.finished_tasks == 50
    assert snapshot == rebuild_snapshot(run_dir)


async def test_snapshot_is_written_soon_after_the_last_event_without_a_flush(run_dir: Path) -> None:
    writer = ProgressWriter(run_dir)
    await writer.emit([SOURCE.tasks_loaded(3)])
    await writer.emit([SOURCE.task_started("a", None, index=0, total=3)])

    async def until_written() -> None:
        # The file is the only thing that changes: there is no event to wait for.
        while (snapshot := read_snapshot(run_dir)) is None or snapshot.last_seq < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    await asyncio.wait_for(until_written(), 60)
    await writer.close()


async def test_end_of_the_run_is_in_the_snapshot_at_once(run_dir: Path) -> None:
    writer = ProgressWriter(run_dir)
    await writer.emit([SOURCE.tasks_loaded(0)])
    await writer.emit([SOURCE.run_finished("completed")])
    snapshot = read_snapshot(run_dir)
    assert snapshot is not None and snapshot.status == "completed"
    await writer.close()


@pytest.mark.parametrize("torn", [b'{"seq": 3, "ev', b"\x00\x00\x00", b'{"seq":3,"key":"k"}'])
async def test_torn_last_line_of_a_killed_writer_is_healed(run_dir: Path, torn: bytes) -> None:
    writer = ProgressWriter(run_dir)
    await writer.emit([SOURCE.tasks_loaded(1)])
    await writer.close()
    files.append(run_dir / "progress.jsonl", torn)
    assert [event.event for event in read_events(run_dir / "progress.jsonl")] == ["tasks_loaded"]
    for heir in (writer, ProgressWriter(run_dir)):
        await heir.emit([SOURCE.summary_started()])
        await heir.close()
    assert [line["event"] for line in lines(run_dir)] == ["tasks_loaded", "summary_started"]
    assert read_snapshot(run_dir) == rebuild_snapshot(run_dir)


async def test_failed_write_reaches_the_caller_and_can_be_repeated(run_dir: Path) -> None:
    (run_dir / "progress.jsonl").mkdir()
    writer = ProgressWriter(run_dir)
    with pytest.raises(OSError):
        await writer.emit([SOURCE.tasks_loaded(1)])
    (run_dir / "progress.jsonl").rmdir()
    await writer.emit([SOURCE.tasks_loaded(1)])
    await writer.close()
    assert len(lines(run_dir)) == 1


async def test_abandoned_emit_does_not_stop_the_others(run_dir: Path) -> None:
    writer = ProgressWriter(run_dir)
    emits = [asyncio.create_task(writer.emit([event])) for event in task_events("a")]
    await asyncio.sleep(0)
    emits[0].cancel()
    await asyncio.gather(*emits[1:])
    await writer.close()
    assert len(lines(run_dir)) == 6


async def test_secrets_in_payloads_are_masked(run_dir: Path) -> None:
    redactor = Redactor()
    redactor.register("hunter2-hunter2")
    writer = ProgressWriter(run_dir, redactor)
    await writer.emit([SOURCE.run_finished("failed", "login hunter2-hunter2 refused")])
    await writer.close()
    assert lines(run_dir)[0]["payload"] == {"error": "login *** refused"}


def _emit_share(run_dir: Path, first: int, last: int) -> None:
    async def emit() -> None:
        writer = ProgressWriter(run_dir)
        for number in range(first, last):
            for event in task_events(f"t{number}"):
                await writer.emit([event])
        await writer.close()

    asyncio.run(emit())


def test_several_processes_write_one_sequence_without_repetition(run_dir: Path) -> None:
    context = get_context("fork")
    shares = [(0, 20), (10, 30), (20, 40)]  # they overlap: some activities run twice
    processes = [context.Process(target=_emit_share, args=(run_dir, *share)) for share in shares]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    written = lines(run_dir)
    assert [line["seq"] for line in written] == list(range(1, 241))
    assert len({str(line["key"]) for line in written}) == 240
    snapshot = rebuild_snapshot(run_dir)
    assert (snapshot.finished_tasks, snapshot.attempts_finished, snapshot.running_tasks) == (40, 40, 0)
    assert read_snapshot(run_dir) == snapshot


_ENDLESS = """
import asyncio, sys
from pathlib import Path
from agentcompass.activities.store import EventSource, ProgressWriter
async def main():
    source, writer = EventSource(run_id="run1"), ProgressWriter(Path(sys.argv[1]))
    number = 0
    while True:
        await writer.emit([source.attempt_started(f"t{number}", None, attempt=1)])
        print(number, flush=True)
        number += 1
asyncio.run(main())
"""


def test_confirmed_events_survive_a_killed_writer(run_dir: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", _ENDLESS, str(run_dir)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(30):
        confirmed = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    rest = process.stdout.read().split()
    process.wait()
    process.stdout.close()
    confirmed = int(rest[-1]) if rest else confirmed
    writer = ProgressWriter(run_dir)
    writer.emit_blocking([SOURCE.attempt_started("last", None, attempt=1)])
    asyncio.run(writer.close())
    tasks = [line["task_id"] for line in lines(run_dir)]
    assert tasks[: confirmed + 1] == [f"t{number}" for number in range(confirmed + 1)]
    assert tasks[-1] == "last" and read_snapshot(run_dir) == rebuild_snapshot(run_dir)


def test_emit_killed_at_any_step_loses_and_repeats_nothing(
    run_dir: Path, killed_at_step: Callable[[int, Callable[[], object]], bool]
) -> None:
    for step in range(50):
        events = task_events(f"t{step}")
        killed = killed_at_step(
            step, lambda events=events: ProgressLog(run_dir, Redactor()).append(events, write_snapshot=True)
        )
        ProgressLog(run_dir, Redactor()).append(events, write_snapshot=True)  # the activity runs again
        written = lines(run_dir)
        assert [line["seq"] for line in written] == list(range(1, 6 * (step + 1) + 1))
        assert read_snapshot(run_dir) == rebuild_snapshot(run_dir)
        if not killed:
            assert step > 2
            return
    raise AssertionError("emitting never ended")


def test_log_that_was_cut_by_somebody_else_is_reported(run_dir: Path) -> None:
    log = ProgressLog(run_dir, Redactor())
    log.append([SOURCE.tasks_loaded(1)])
    (run_dir / "progress.jsonl").write_bytes(b"")
    with pytest.raises(Exception, match="has become shorter"):
        log.append([SOURCE.summary_started()])


def test_events_of_a_launch_name_the_orchestration(request_one: RunRequest) -> None:
    request_one.metadata.request_name = "one"
    state = RequestState(
        run_id="run1",
        launch_id="weekly",
        request_key="0-one",
        request_index=0,
        request_count=1,
        request=request_one,
        runtime=LaunchRuntime(),
    )
    event = EventSource.of(state).summary_started()
    fields = (event.orchestration_id, event.request_key, event.request_name, event.request_index)
    assert fields == ("weekly", "0-one", "one", 0)
    request_one.metadata.request_name = ""
    single = EventSource.of(state.model_copy(update={"request": request_one})).summary_started()
    assert (single.orchestration_id, single.request_key, single.request_index) == (None, None, None)


def again_of_a(plan: PlanSummary) -> list[ProgressEvent]:
    """The same things of the same task, which an operator had executed again."""
    again = replace(SOURCE, generation=1)
    return [
        again.phase_changed("a", None, attempt=1, execution=1, phase="evaluate"),
        again.execution_plan_resolved("a", None, attempt=1, plan=plan),
        again.task_finished("a", None, index=0, total=1, severity=None),
    ]


def test_keys_tell_tasks_attempts_executions_and_phases_apart() -> None:
    policy = NetworkPolicy()
    plan = PlanSummary(environment={}, run_network_policy=policy, verifier_network_policy=policy)
    events = [
        SOURCE.phase_changed("a", None, attempt=1, execution=1, phase="evaluate"),
        SOURCE.phase_changed("a", None, attempt=1, execution=2, phase="evaluate"),
        SOURCE.phase_changed("a", None, attempt=2, execution=1, phase="evaluate"),
        SOURCE.phase_changed("b", None, attempt=1, execution=1, phase="evaluate"),
        SOURCE.phase_changed("a", None, attempt=1, execution=1, phase="plan"),
        SOURCE.execution_plan_resolved("a", None, attempt=1, plan=plan),
        SOURCE.task_finished("a", None, index=0, total=1, severity=Severity.FATAL),
        *again_of_a(plan),
    ]
    assert len({event.key for event in events}) == len(events)
    assert events[-4].status == "failed" and events[-4].payload["severity"] == "fatal"


def test_key_set_grows_and_finds_what_it_holds() -> None:
    keys = KeySet(capacity=4)
    assert all(keys.add(f"key {number}") for number in range(5000))
    assert not any(keys.add(f"key {number}") for number in range(5000))
    assert len(keys) == 5000 and "key 17" in keys and "other" not in keys


async def test_a_run_info_that_cannot_be_refreshed_stops_no_event(run_dir: Path) -> None:
    """Whatever went wrong there: who emits afterwards is written and told."""

    def broken() -> None:
        raise ValueError("not what was expected")

    policy = NetworkPolicy()
    plan = PlanSummary(environment={}, run_network_policy=policy, verifier_network_policy=policy)
    writer = ProgressWriter(run_dir, on_plans=broken)
    await writer.emit([SOURCE.execution_plan_resolved("a", None, attempt=1, plan=plan)])
    await asyncio.wait_for(writer.emit([SOURCE.tasks_loaded(2)]), 60)
    assert [line["event"] for line in lines(run_dir)] == ["execution_plan_resolved", "tasks_loaded"]
