"""``agentcompass schedule`` with a real server, real workers and real launches."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from command_line import CommandLine, kill_and_wait, wait_for
from gates import Gates
from scheduled_runs import NEVER, Schedules
from temporalio.client import Client, ScheduleOverlapPolicy

from agentcompass.contracts.schedules import schedule_id
from agentcompass.contracts.workflows import NAMESPACE


@pytest.fixture
def schedules(command_line: CommandLine) -> Schedules:
    """A schedule's name and queue for this test."""
    return Schedules(command_line)


def test_a_schedule_without_a_worker_says_what_to_start_and_its_launch_waits_for_it(
    schedules: Schedules,
) -> None:
    times = ("--cron", "0 3 29 2 *", "--timezone", "Europe/Berlin")
    created = schedules.process("schedule", "create", schedules.name, *times, schedules.plan()).expect(0)
    command = f"agentcompass worker --task-queue {schedules.queue}"
    assert command in created.stderr
    assert "0 3 29 2 * in Europe/Berlin" in created.stdout
    assert "2028-02-29 03:00 CET" in created.stdout
    triggered = schedules.process("schedule", "trigger", schedules.name).expect(0)
    assert command in triggered.stderr
    assert schedules.show()["actions"][0]["outcome"] == "waiting"

    schedules.worker()
    [action] = schedules.actions(1)
    assert action["outcome"] == "completed"
    at = datetime.fromisoformat(action["scheduled_at"])
    assert action["launch_id"] == f"{schedules.name}-{at:%Y%m%d-%H%M%S}"
    [run_dir] = schedules.command_line.run_dirs
    assert run_dir == schedules.folder / f"{at:%Y%m%d_%H%M%S}"
    info = json.loads((run_dir / "run_info.json").read_bytes())
    assert info["request"]["metadata"]["scheduled"]["schedule"] == schedules.name
    listed = {item["launch_id"]: item for item in schedules.call("list", "--json").expect(0).json}
    assert listed[action["launch_id"]]["schedule"] == schedules.name
    assert "no earlier valid run" in schedules.process("attach", action["launch_id"]).expect(0).stdout


def test_a_regression_against_the_previous_run_fails_the_launch(schedules: Schedules) -> None:
    schedules.create("--fail-on-regression")
    schedules.worker()
    first, attached = schedules.trigger_to_end()
    attached.expect(0)
    schedules.broken.touch()
    second, attached = schedules.trigger_to_end()
    attached.expect(1)
    assert "Status: completed" in attached.stdout, "the run itself is valid"
    assert "regression against run" in attached.stdout
    schedules.broken.unlink()
    third, attached = schedules.trigger_to_end()
    attached.expect(0)

    outcomes = {item["launch_id"]: item for item in schedules.actions(3)}
    assert [outcomes[launch]["outcome"] for launch in (first, second, third)] == [
        "completed",
        "failed",
        "completed",
    ]
    assert "regression against run" in outcomes[second]["message"]
    assert "0 better, 3 worse" in (schedules.command_line.run_dirs[1] / "summary.md").read_text()
    comparison = json.loads((schedules.command_line.run_dirs[2] / "comparison.json").read_bytes())
    assert (comparison["old"]["run_id"], len(comparison["better"])) == (
        schedules.command_line.run_dirs[1].name,
        3,
    )
    status = schedules.call("status", second, "--exit-code").expect(1)
    assert f"Launch: {second} (failed)" in status.stdout
    shown = schedules.run("show", schedules.name).expect(0).stdout
    assert f"{second}  failed" in shown
    summary = schedules.call("summary", str(schedules.command_line.run_dirs[1]))
    assert summary.code == 0
    assert "## Compared with" in (schedules.command_line.run_dirs[1] / "summary.md").read_text()


def test_a_time_is_skipped_while_the_launch_of_an_earlier_one_goes_on(schedules: Schedules) -> None:
    gates = Gates(schedules.command_line.folder / "gates")
    gates.close("only", "execute_task")
    components = {"benchmark": {"id": "gated", "tasks": ["only"]}, "harness": {"id": "gated"}}
    schedules.create(plan=schedules.plan(**components, environment={"id": "gated"}))
    schedules.worker(gates.env)
    launch = schedules.trigger()
    gates.wait("only", "execute_task")

    again = schedules.run("trigger", schedules.name).expect(0)
    assert f"Nothing was started: launch {launch} is not over" in again.stdout
    shown = schedules.show()
    assert (shown["started"], shown["skipped"]) == (1, 1)
    deleted = schedules.run("delete", schedules.name).expect(0)
    assert f"agentcompass cancel {launch}" in deleted.stdout

    gates.open("only", "execute_task")
    assert schedules.call("attach", launch, "--json").expect(0).json["status"] == "completed"


def test_past_times_are_backfilled_once_each_with_its_run_id(schedules: Schedules) -> None:
    schedules.create("--timezone", "Europe/Berlin", "--paused", cron="30 4 1 */2 *")
    schedules.worker()
    span = ("--from", "2026-05-01", "--to", "2026-09-01")
    planned = schedules.run("backfill", schedules.name, *span, "--dry-run", "--json").expect(0).json
    assert planned["starts"] == [f"2026-0{month}-01T02:30:00+00:00" for month in (5, 7, 9)]
    assert schedules.show()["started"] == 0

    schedules.run("backfill", schedules.name, "--from", "2026-07-01", "--to", "2026-09-01").expect(0)
    schedules.actions(2)
    # The earlier time comes later: it is compared with what lies before it, which is nothing.
    done = schedules.run("backfill", schedules.name, *span, "--json").expect(0).json
    assert (len(done["starts"]), len(done["done"])) == (1, 2)
    messages = {item["scheduled_at"]: item["message"] for item in schedules.actions(3)}
    assert "no earlier valid run" in messages["2026-05-01T02:30:00Z"]
    assert "against run 20260701_023000" in messages["2026-09-01T02:30:00Z"]
    assert [path.name for path in schedules.command_line.run_dirs] == [
        f"20260{month}01_023000" for month in (5, 7, 9)
    ]

    idle = schedules.run("backfill", schedules.name, *span).expect(0)
    assert "There is nothing to do; --again repeats them." in idle.stdout
    schedules.run("backfill", schedules.name, "--from", "2026-09-01", "--to", "2026-09-01", "--again").expect(
        0
    )
    assert schedules.actions(4)[0]["launch_id"] == f"{schedules.name}-20260901-023000-2"
    assert schedules.command_line.run_dirs[-1].name == "20260901_023000-2"


def test_commands_may_be_repeated_and_names_that_are_not_there_are_refused(schedules: Schedules) -> None:
    schedules.create()
    name = schedules.name
    assert "with --replace" in schedules.run("create", name, "--cron", NEVER, "plan.yaml").expect(2).stderr
    assert "is paused" in schedules.run("pause", name, "--reason", "no money").expect(0).stdout
    replaced = schedules.run("create", name, "--cron", "5 0 29 2 *", "plan.yaml", "--replace", "--json")
    facts = replaced.expect(0).json
    assert (facts["cron"], facts["paused"], facts["note"]) == ("5 0 29 2 *", True, "no money")
    assert "was paused already (no money)" in schedules.run("pause", name).expect(0).stdout
    assert "goes on; next: 2028-02-29 00:05 UTC" in schedules.run("resume", name).expect(0).stdout
    assert "was not paused" in schedules.run("resume", name).expect(0).stdout
    assert name in schedules.run("list").expect(0).stdout

    wrong = schedules.run("show", f"{name}x").expect(2)
    [error] = wrong.errors
    assert error.startswith(f"Error: there is no schedule '{name}x'; did you mean '{name}'")
    schedules.run("delete", name).expect(0)
    assert f"there is no schedule {name!r}" in schedules.run("delete", name).expect(2).stderr
    assert name not in {item["name"] for item in schedules.run("list", "--json").expect(0).json}


@pytest.mark.parametrize(
    ("arguments", "request_values", "problem"),
    [
        (["--cron", "0 25 * * *"], {}, "hour: 25 is not between 0 and 23"),
        (["--cron", NEVER, "--timezone", "berlin"], {}, "did you mean 'Europe/Berlin'?"),
        (["--cron", NEVER, "--overlap", "skipp"], {}, "did you mean 'skip'?"),
        (["--cron", NEVER, "--catchup-window-seconds", "1"], {}, "is not between 10 and"),
        (["--cron", NEVER], {"output": {"run_id": "mine"}}, "are named after their time"),
        (["--cron", NEVER], {"runtime": {"reuse": True, "reuse_run_id": "x"}}, "leave runtime.reuse_run_id"),
        (
            ["--cron", NEVER],
            {"model": {"id": "m", "api_key": "sk-canary-1234567"}},
            "literally to a schedule",
        ),
        (["--cron", NEVER], {"benchmark": {"id": "comand"}}, "comand"),
    ],
    ids=["cron", "zone", "overlap", "window", "run-id", "reuse", "secret", "component"],
)
def test_what_cannot_be_scheduled_is_refused_in_one_line(
    schedules: Schedules, arguments: list[str], request_values: dict[str, object], problem: str
) -> None:
    plan = schedules.plan(**request_values)
    refused = schedules.run("create", schedules.name, plan, *arguments).expect(2)
    assert len(refused.errors) == 1
    assert problem in refused.errors[0]
    assert "canary" not in refused.stderr


def test_the_plan_is_shown_with_absolute_paths_and_references_only(schedules: Schedules) -> None:
    key = "sk-canary-of-the-schedule"
    model = {"id": "m", "base_url": "http://127.0.0.1:9", "api_key": "${SCHEDULED_KEY}"}
    plan = schedules.plan(model=model)
    schedules.run("create", schedules.name, "--cron", NEVER, plan, env={"SCHEDULED_KEY": key}).expect(0)
    [request] = schedules.show()["plan"]["requests"]
    assert request["model"]["api_key"] == "env:SCHEDULED_KEY"
    assert request["benchmark"]["params"]["path"] == str(schedules.command_line.folder / "tasks.jsonl")
    text = schedules.run("show", schedules.name).expect(0).stdout
    assert "env:SCHEDULED_KEY" in text
    assert key not in text


def test_a_worker_starts_the_local_server_again_when_that_has_died(schedules: Schedules) -> None:
    schedules.create()
    worker = schedules.worker()
    schedules.trigger_to_end()[1].expect(0)
    killed = schedules.command_line.server_pid
    kill_and_wait(killed)
    wait_for("the worker's word", lambda: "it was started again" in worker.stderr)
    assert schedules.command_line.server_pid != killed
    schedules.trigger_to_end()[1].expect(0)


def test_a_scheduled_launch_that_nobody_serves_any_more_goes_on_with_attach(schedules: Schedules) -> None:
    gates = Gates(schedules.command_line.folder / "gates")
    gates.close("one", "execute_task")
    config = schedules.command_line.folder / "agentcompass.yaml"
    config.write_text("runtime: {heartbeat_timeout_seconds: 4}\n", encoding="utf-8")
    plan = schedules.plan(
        benchmark={"id": "gated", "tasks": ["one"]}, harness={"id": "gated"}, environment={"id": "gated"}
    )
    schedules.create(plan=plan)
    worker = schedules.worker(gates.env)
    launch = schedules.trigger()
    gates.wait("one", "execute_task")
    worker.kill()
    attached = schedules.command_line.start("attach", launch, env={**schedules.env, **gates.env})
    wait_for("another worker", lambda: "started one for this launch" in attached.stderr)
    gates.open("one", "execute_task")
    attached.wait().expect(0)
    [action] = schedules.actions(1)
    assert action["outcome"] == "completed"


async def test_window_overlap_and_zone_are_what_the_server_keeps_to(schedules: Schedules) -> None:
    """As the server's own description of the schedule says, also after each change."""
    kept = {
        "skip": ScheduleOverlapPolicy.SKIP,
        "buffer-one": ScheduleOverlapPolicy.BUFFER_ONE,
        "cancel-other": ScheduleOverlapPolicy.CANCEL_OTHER,
        "allow-all": ScheduleOverlapPolicy.ALLOW_ALL,
    }
    port = schedules.command_line.server_port
    client = await Client.connect(f"127.0.0.1:{port}", namespace=NAMESPACE)
    plan = schedules.plan()
    for number, (name, policy) in enumerate(kept.items()):
        times = ("--cron", NEVER, "--timezone", "Asia/Kolkata", "--overlap", name)
        window = ("--catchup-window-seconds", str(60 + number), "--replace")
        await asyncio.to_thread(schedules.run, "create", schedules.name, plan, *times, *window)
        described = await client.get_schedule_handle(schedule_id(schedules.name)).describe()
        assert described.schedule.policy.overlap is policy
        assert described.schedule.policy.catchup_window == timedelta(seconds=60 + number)
        [first, *_] = described.info.next_action_times
        assert (first.astimezone(UTC).hour, first.minute) == (18, 30)  # midnight there
    await asyncio.to_thread(schedules.run, "delete", schedules.name)
