"""``kill -9`` of everything: what is left behind goes when its attempt is over, and not before."""

from __future__ import annotations

from command_line import CommandLine, Running, kill_and_wait, wait_for
from gated_runs import start_gated, terminate_launch
from gates import Gates

ROWS = [{"id": "q1", "question": "2 + 2?", "answer": "4"}]


def environments(command_line: CommandLine) -> set[str]:
    folder = command_line.home / "environments" / "host_process"
    return {path.name for path in folder.glob("ac-*")}


def start_and_stop_in_the_agent(command_line: CommandLine, name: str) -> tuple[Running, Gates, int]:
    """A run whose agent works, and its worker."""
    gates = Gates(command_line.folder / "gates")
    gates.close(name, "execute_task")
    running = start_gated(command_line, gates, "--run-id", name, tasks=[name])
    return running, gates, gates.wait(name, "execute_task")


def test_leftovers_of_dead_attempts_go_with_the_next_run_and_those_of_others_stay(
    secluded: CommandLine,
) -> None:
    command_line = secluded
    dead, _, dead_worker = start_and_stop_in_the_agent(command_line, "dead")
    paused, gates, paused_worker = start_and_stop_in_the_agent(command_line, "paused")
    dead_launch, paused_launch = dead.launch_id, paused.launch_id
    for running in (dead, paused):
        running.kill()
    for pid in (dead_worker, paused_worker, command_line.server_pid):
        kill_and_wait(pid)
    left = environments(command_line)
    assert len(left) == 2

    command_line.run("server", "start").expect(0)
    terminate_launch(command_line, dead_launch)
    arguments = ("run", "qa", "oracle", "none", "--benchmark-params", command_line.dataset(ROWS))
    command_line.run(*arguments, env=gates.env).expect(0)
    [still] = wait_for("the dead attempt's environment to go", lambda: one_of(environments(command_line)))
    assert still.startswith("ac-paused-")

    gates.open("paused", "execute_task")
    command_line.run("attach", paused_launch, env=gates.env).expect(0)
    wait_for("the end of all environments", lambda: not environments(command_line))


def one_of(names: set[str]) -> set[str] | None:
    return names if len(names) == 1 else None


def test_what_a_terminated_launch_left_goes_before_its_worker_does(secluded: CommandLine) -> None:
    """Terminated: no workflow closed anything."""
    command_line = secluded
    running, _, _ = start_and_stop_in_the_agent(command_line, "one")
    [name] = environments(command_line)
    folder = command_line.home / "environments" / "host_process" / name
    terminate_launch(command_line, running.launch_id)
    running.wait()
    wait_for("the environment to go", lambda: not folder.exists())
