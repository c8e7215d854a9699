"""The reaper on a real Temporal server and real environments of ``host_process``."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Worker
from workflow_server import until

from agentcompass.activities.data_converter import data_converter
from agentcompass.activities.host import host_name
from agentcompass.activities.namespace import namespace_identity
from agentcompass.activities.reaper import EnvironmentState, Owners, Reaper, find_environments
from agentcompass.activities.reaper import reaper as reaper_module
from agentcompass.activities.services import Services, WorkerSettings
from agentcompass.activities.store.ledger import EnvironmentLedger, LedgerEntry
from agentcompass.activities.store.open_runs import OpenRuns
from agentcompass.cli.connection import ConnectionConfig, connect
from agentcompass.cli.embedded_server import EmbeddedServer
from agentcompass.contracts import EnvironmentSpec, NetworkPolicy, OpenRequest
from agentcompass.contracts.activities import AttemptRef
from agentcompass.contracts.environment import EnvironmentHandle
from agentcompass.contracts.environment_labels import EnvironmentOwner
from agentcompass.contracts.request import AttemptsSpec
from agentcompass.contracts.workflows import ATTEMPT_WORKFLOW, LAUNCH_WORKFLOW, NAMESPACE, AttemptInput
from agentcompass.plugins.environments.host_process import HostProcess, HostProcessParams
from agentcompass.plugins.registry import load_registry
from agentcompass.workflows.registration import WORKFLOWS
from agentcompass.workflows.runner import sandbox

PAST, FUTURE = 1_000.0, 4_000_000_000.0


@dataclass
class Place:
    """A home with environments, and the server that knows whose they are."""

    client: Client
    namespace: str
    home: Path
    launch: str

    @property
    def root(self) -> Path:
        return self.home / "environments" / "host_process"

    @property
    def left(self) -> set[str]:
        """The environments that are there."""
        return {path.name for path in self.root.iterdir()}

    def reaper(self, second_look_seconds: float = 0.0) -> Reaper:
        services = Services(self.client, WorkerSettings("q", "q"))
        return Reaper(
            services, load_registry(), self.home, host_name(), second_look_seconds=second_look_seconds
        )

    def owner(self, task: str, **changes: Any) -> EnvironmentOwner:
        values = {"launch": self.launch, "request": "r", "task": task, "attempt": 1, "expiry": FUTURE}
        return EnvironmentOwner(**{**values, "temporal": self.namespace, **changes})

    async def open(self, name: str, labels: dict[str, str], root: Path | None = None) -> Path:
        provider = HostProcess(HostProcessParams(root=root or self.root))
        session = await provider.open(
            OpenRequest(
                environment_id=name,
                spec=EnvironmentSpec(id="host_process"),
                network_policy=NetworkPolicy(),
                labels=labels,
            )
        )
        return Path(session.workdir).parent

    async def start(self, workflow: str, workflow_id: str) -> None:
        """A workflow that runs, on a queue that nobody serves."""
        argument = AttemptInput(
            ref=AttemptRef(run_dir="/r", task_index=0, task_id="t", attempt=1), attempts=AttemptsSpec()
        )
        await self.client.start_workflow(
            workflow, argument, id=workflow_id, task_queue=f"unserved-{self.launch}"
        )

    async def attempt(self, owner: EnvironmentOwner, *, running: bool) -> None:
        await self.start(ATTEMPT_WORKFLOW, owner.workflow_id)
        if not running:
            await self.client.get_workflow_handle(owner.workflow_id).terminate()


@pytest.fixture
async def place(embedded_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    connection = await connect(
        ConnectionConfig("embedded", NAMESPACE, None), data_converter=data_converter(), home=embedded_home
    )
    monkeypatch.setenv("AGENTCOMPASS_HOME", str(tmp_path))
    launch = f"reaper-{uuid.uuid4().hex[:8]}"
    place = Place(connection.client, await namespace_identity(connection.client), tmp_path, launch)
    await place.start(LAUNCH_WORKFLOW, f"launch/{launch}")
    yield place
    async for item in connection.client.list_workflows("ExecutionStatus = 'Running'"):
        if launch in item.id:
            await connection.client.get_workflow_handle(item.id).terminate()


async def test_what_belongs_to_attempts_that_are_over_goes_and_all_else_stays(place: Place) -> None:
    over, running, kept = place.owner("over"), place.owner("running"), place.owner("kept", keep=True)
    await place.attempt(over, running=False)
    await place.attempt(running, running=True)
    await place.attempt(kept, running=False)
    for owner in (over, running, kept):
        await place.open(f"ac-{owner.task}", owner.labels())
    await place.open("ac-forgotten", place.owner("forgotten").labels())  # no such workflow
    await place.open("ac-elsewhere", place.owner("x", temporal="another server").labels())
    await place.open("ac-strange", {"launch": place.launch})

    report = await place.reaper().sweep()
    assert set(report.released) == {"ac-over", "ac-forgotten"}
    assert (report.left, report.failed, report.problems) == (4, [], [])
    assert place.left == {"ac-running", "ac-kept", "ac-elsewhere", "ac-strange"}
    assert (await place.reaper().sweep()).released == []


async def test_a_lease_that_ran_out_ends_what_nobody_serves_at_the_second_look(place: Place) -> None:
    owner = place.owner("abandoned", expiry=PAST)
    await place.attempt(owner, running=True)
    await place.open("ac-abandoned", owner.labels())
    await place.open("ac-of-a-dead-server", place.owner("x", expiry=PAST, temporal="dead").labels())

    patient, quick = place.reaper(second_look_seconds=3600), place.reaper()
    await patient.sweep()
    await patient.sweep()
    await quick.sweep()
    assert place.left == {"ac-abandoned", "ac-of-a-dead-server"}
    assert (await quick.sweep()).released == ["ac-abandoned"]
    # Its provider was never seen to renew it, so it may be in use somewhere.
    assert place.left == {"ac-of-a-dead-server"}


async def test_a_renewed_lease_protects_and_one_that_ended_does_not(place: Place) -> None:
    provider = HostProcess(HostProcessParams(root=place.root))
    for name, expires_at in (("ac-renewed", FUTURE), ("ac-ended", PAST)):
        owner = place.owner(name, expiry=PAST, temporal="another server")
        await place.open(name, owner.labels())
        [record] = [item for item in await provider.list_environments() if item.handle.id == name]
        await provider.renew(record.handle, expires_at)
    reaper = place.reaper()
    await reaper.sweep()
    assert (await reaper.sweep()).released == ["ac-ended"]
    assert place.left == {"ac-renewed"}


async def test_an_attempt_that_a_worker_serves_is_live_however_old_its_lease(place: Place) -> None:
    owner = place.owner("slow", expiry=PAST)
    await place.attempt(owner, running=True)
    await place.open("ac-slow", owner.labels())
    found = await find_environments(load_registry(), place.home, host_name())
    [sighting] = found.sightings
    owners = Owners(place.client, place.namespace)
    assert await owners.state_of(sighting, 2_000.0) is EnvironmentState.EXPIRED

    async def lives() -> bool:
        state = await Owners(place.client, place.namespace).state_of(sighting, 2_000.0)
        return state is EnvironmentState.LIVE

    async with Worker(
        place.client,
        task_queue=f"unserved-{place.launch}",
        workflows=WORKFLOWS,
        workflow_runner=sandbox(place.client.data_converter),
    ):
        await until(lives)


async def test_environments_with_parameters_of_their_own_are_found_by_the_ledger(
    place: Place, tmp_path: Path
) -> None:
    owner, root, run_dir = place.owner("over"), tmp_path / "elsewhere", tmp_path / "run"
    folder = await place.open("ac-over", owner.labels(), root)
    entry = LedgerEntry(
        environment_id="ac-over",
        provider="host_process",
        params={"root": str(root)},
        labels=owner.labels(),
        host=host_name(),
        opened_at=1.0,
    )
    EnvironmentLedger(run_dir).add(entry)
    EnvironmentLedger(run_dir).add(entry.model_copy(update={"environment_id": "ac-never-made"}))
    EnvironmentLedger(run_dir).add(
        entry.model_copy(update={"environment_id": "ac-of-another-machine", "host": "other"})
    )
    OpenRuns(place.home).note(str(run_dir))

    report = await place.reaper().sweep()
    assert report.released == ["ac-over"] and not folder.exists()
    assert [item.environment_id for item in EnvironmentLedger(run_dir).entries()] == ["ac-of-another-machine"]


@pytest.mark.parametrize("opened", [True, False])
async def test_one_that_is_kept_and_was_opened_while_the_provider_was_asked_stays(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: bool
) -> None:
    owner, run_dir = place.owner("kept", keep=True), tmp_path / "run"
    await place.attempt(owner, running=False)
    ledger = EnvironmentLedger(run_dir)
    entry = LedgerEntry(
        environment_id="ac-kept", provider="host_process", labels=owner.labels(), opened_at=1.0
    )
    ledger.add(entry)
    OpenRuns(place.home).note(str(run_dir))

    async def asked_too_early(*arguments: Any, **options: Any) -> Any:
        found = await find_environments(*arguments, **options)
        if opened:
            await place.open("ac-kept", owner.labels())
            ledger.note_handle(entry, EnvironmentHandle(provider="host_process", id="ac-kept"))
        return found

    monkeypatch.setattr(reaper_module, "find_environments", asked_too_early)
    assert (await place.reaper().sweep()).released == []
    assert [entry.environment_id for entry in ledger.entries()] == (["ac-kept"] if opened else [])
    assert place.root.is_dir() is opened and (not opened or place.left == {"ac-kept"})


async def test_a_removal_that_failed_is_remembered_and_tried_again(place: Place, tmp_path: Path) -> None:
    owner, run_dir = place.owner("over"), tmp_path / "run"
    await place.open("ac-over", owner.labels())
    ledger = EnvironmentLedger(run_dir)
    wrong = {"grace_seconds": -1}  # a parameter that the provider refuses
    entry = LedgerEntry(
        environment_id="ac-over",
        provider="host_process",
        params=wrong,  # type: ignore[arg-type]
        labels=owner.labels(),
        opened_at=1.0,
    )
    ledger.add(entry)
    OpenRuns(place.home).note(str(run_dir))
    for failures in (1, 2):
        report = await place.reaper().sweep()
        assert len(report.failed) == 1 and "grace_seconds" in report.failed[0]
        [noted] = ledger.entries()
        assert noted.failed_removals == failures and "grace_seconds" in noted.error
    ledger.add(entry.model_copy(update={"params": {}}))
    assert (await place.reaper().sweep()).released == ["ac-over"]
    assert ledger.empty() and place.left == set()


async def test_nothing_is_removed_when_temporal_cannot_be_asked(tmp_path: Path, monkeypatch: Any) -> None:
    server = EmbeddedServer(tmp_path / "server", search_attributes={})
    info = await server.ensure()
    client = await Client.connect(info.address, namespace=info.namespace)
    monkeypatch.setenv("AGENTCOMPASS_HOME", str(tmp_path))
    place = Place(client, await namespace_identity(client), tmp_path, "gone")
    reaper = place.reaper()
    await place.open("ac-over", place.owner("over").labels())
    await server.stop()
    with pytest.raises(RPCError):
        await reaper.sweep()
    assert place.left == {"ac-over"}
