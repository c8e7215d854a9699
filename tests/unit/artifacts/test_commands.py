"""Commands that prepare artifacts."""

from __future__ import annotations

import pytest

from agentcompass.activities.artifacts.commands import ArtifactCommandError, run_commands
from agentcompass.activities.artifacts.progress import CollectionProgress
from agentcompass.contracts import ArtifactCommand, EnvironmentSession


def commands(*lines: str, timeout_seconds: float | None = 60) -> list[ArtifactCommand]:
    return [ArtifactCommand(command=line, timeout_seconds=timeout_seconds) for line in lines]


async def test_commands_run_in_order_in_the_work_directory(session: EnvironmentSession) -> None:
    saved: list[int] = []
    progress = CollectionProgress()
    await run_commands(
        session,
        commands("printf a >> log", "printf b >> log"),
        None,
        progress,
        lambda: saved.append(progress.commands_done),
    )
    assert await session.read(f"{session.workdir}/log") == b"ab"
    assert progress.commands_done == 2
    assert saved[-1] == 2


async def test_what_an_earlier_worker_finished_is_not_repeated(session: EnvironmentSession) -> None:
    progress = CollectionProgress(commands_done=1)
    await run_commands(session, commands("printf a >> log", "printf b >> log"), None, progress, lambda: None)
    assert await session.read(f"{session.workdir}/log") == b"b"


async def test_a_group_budget_that_an_earlier_worker_used_up_starts_nothing(
    session: EnvironmentSession,
) -> None:
    progress = CollectionProgress(command_seconds=100)
    with pytest.raises(ArtifactCommandError, match=r"of 100 s .*artifact command 1 of 1 .*was not started"):
        await run_commands(session, commands("touch log"), 100, progress, lambda: None)
    assert not (await session.exec("test -e log")).ok


@pytest.mark.parametrize(
    ("own", "group", "message"),
    [
        (0.3, None, "ran longer than its timeout_seconds of 0.3 s"),
        (0.3, 100, "ran longer than its timeout_seconds of 0.3 s"),
        (100, 0.3, r"the budget of 0.3 s for artifact commands \(artifact_collect_timeout_seconds\)"),
        (None, 0.3, r"the budget of 0.3 s for artifact commands \(artifact_collect_timeout_seconds\)"),
    ],
)
async def test_the_first_limit_wins_and_names_itself(
    session: EnvironmentSession, own: float | None, group: float | None, message: str
) -> None:
    with pytest.raises(ArtifactCommandError, match=message):
        await run_commands(
            session, commands("sleep 600", timeout_seconds=own), group, CollectionProgress(), lambda: None
        )
    assert await session.end_all_processes() == 0


async def test_the_group_budget_is_shared(session: EnvironmentSession) -> None:
    progress = CollectionProgress()
    with pytest.raises(ArtifactCommandError, match="is used up"):
        await run_commands(session, commands("sleep 0.3", "sleep 600"), 0.6, progress, lambda: None)
    assert progress.commands_done == 1


async def test_a_failed_command_stops_the_rest(session: EnvironmentSession) -> None:
    with pytest.raises(ArtifactCommandError, match=r"command 1 of 2 .*ended with status 7: it broke"):
        await run_commands(
            session,
            commands("echo it broke >&2; exit 7", "touch log"),
            None,
            CollectionProgress(),
            lambda: None,
        )
    assert not (await session.exec("test -e log")).ok
