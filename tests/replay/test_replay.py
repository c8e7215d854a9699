"""Workflows of this version go on with histories that were begun before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recorded_scenarios import commands_of, record_all
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from workflow_server import real_server

from agentcompass.activities.data_converter import data_converter
from agentcompass.workflows.registration import WORKFLOWS
from agentcompass.workflows.runner import sandbox

FOLDER = Path(__file__).parent
HISTORIES = sorted((FOLDER / "histories").glob("*.json"))

WHAT_TO_DO = """
The commands of workflow {name!r} are no longer those of the recorded history, so a launch that is under
way would fail when a worker of this version takes it up. Either keep the old path for old histories:

    if workflow.patched("describe-the-change"):
        ...the new commands
    else:
        ...the old ones

or, when no launch can be under way (a new version of the worker deployment, nothing released yet), accept
the change. Then record anew and look at the difference: python tests/replay/record.py
The rules are in docs/temporal.md, "Changing a workflow".
"""


def load(path: Path) -> WorkflowHistory:
    document = json.loads(path.read_text(encoding="utf-8"))
    return WorkflowHistory.from_json(document["workflowId"], document)


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path) -> None:
    converter = data_converter()
    replayer = Replayer(workflows=WORKFLOWS, data_converter=converter, workflow_runner=sandbox(converter))
    result = await replayer.replay_workflow(load(path), raise_on_replay_failure=False)
    if result.replay_failure is not None:
        pytest.fail(f"{result.replay_failure}\n{WHAT_TO_DO.format(name=path.stem)}")


async def test_the_commands_of_the_workflows_are_the_recorded_ones() -> None:
    """Finds what a replay cannot: a command that is new at the end, or only in a new history."""
    recorded = json.loads((FOLDER / "fingerprints.json").read_text(encoding="utf-8"))
    async with real_server() as server:
        histories = await record_all(server.client)
    for name, history in histories.items():
        assert commands_of(history.events) == recorded[name], WHAT_TO_DO.format(name=name)


def test_every_workflow_type_is_recorded() -> None:
    types = {
        load(path).events[0].workflow_execution_started_event_attributes.workflow_type.name
        for path in HISTORIES
    }
    assert types == {
        "LaunchWorkflow",
        "RequestWorkflow",
        "AttemptWorkflow",
        "ProviderPoolWorkflow",
        "ReaperWorkflow",
        "ScheduledLaunchWorkflow",
    }


def test_histories_name_no_machine() -> None:
    for path in HISTORIES:
        text = path.read_text(encoding="utf-8")
        assert "@" not in text and "site-packages" not in text, f"{path.name}: record.py did not scrub it"
        assert len(text) < 100_000
