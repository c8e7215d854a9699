"""What one account has at Modal: an app or more, images, and sandboxes."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checking import invalid, refusal
from faults import Faults
from grpclib import Status
from machine import Execution, Machine
from modal_proto import api_pb2

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TAG = re.compile(r"[A-Za-z0-9._-]{1,63}")
_Result = api_pb2.GenericResult


@dataclass
class FakeImage:
    """One layer of an image."""

    id: str
    asked: api_pb2.Image
    failure: str = ""
    built: bool = False


@dataclass
class FakeSandbox:
    """One sandbox; those that have ended are remembered."""

    id: str
    task: str
    app: str
    asked: api_pb2.Sandbox
    tags: dict[str, str]
    machine: Machine
    network: api_pb2.NetworkAccess
    result: _Result = field(default_factory=_Result)
    executions: dict[str, Execution] = field(default_factory=dict)
    up: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    ending: bool = False
    created: float = field(default_factory=time.time)

    @property
    def newer(self) -> bool:
        """Whether it belongs to the newer of two services."""
        return self.task.endswith("V")


class Account:
    """Everything of one account, in memory."""

    def __init__(self, folder: Path) -> None:
        self.faults = Faults()
        self.apps: dict[str, str] = {}
        """Ids by name."""
        self.images: dict[str, FakeImage] = {}
        self.files: dict[str, bytes] = {}
        """Contents by digest."""
        self.mounts: set[str] = set()
        self.mounted_names: set[str] = set()
        self.sandboxes: dict[str, FakeSandbox] = {}
        self.created: dict[str, FakeSandbox] = {}
        """By the idempotency key of the call that made them."""
        self._folder = folder
        self._tasks: set[asyncio.Task[None]] = set()

    def sandbox_of_task(self, task: str) -> FakeSandbox:
        """The sandbox that a task is of; it has to run."""
        for sandbox in self.sandboxes.values():
            if sandbox.task == task and not sandbox.result.status:
                return sandbox
        raise refusal(Status.NOT_FOUND, f"Task {task} not found or already finished")

    def create(self, app: str, asked: api_pb2.Sandbox, tags: dict[str, str], v1: bool) -> FakeSandbox:
        """Make a sandbox and start it."""
        self._check(app, asked, tags)
        # By the form of its id, the SDK knows which of two services a sandbox belongs to.
        identity = f"sb-{uuid.uuid4().hex[:22]}" if v1 else f"sb-{uuid.uuid4().hex}"
        task = f"ta-{uuid.uuid4().hex[:22]}" + ("" if v1 else "V")
        commands = self.commands(asked.image_id)
        busybox = any(command == "FROM busybox" for command in commands)
        machine = Machine(self._folder / identity, list(asked.entrypoint_args), busybox)
        sandbox = FakeSandbox(identity, task, app, asked, tags, machine, asked.network_access)
        self.sandboxes[identity] = sandbox
        self.later(self._live(sandbox))
        return sandbox

    def commands(self, image_id: str) -> list[str]:
        """The Dockerfile of an image, with that of the images that it is based on."""
        asked = self.images[image_id].asked
        below = [command for base in asked.base_images for command in self.commands(base.image_id)]
        return below + list(asked.dockerfile_commands)

    def _check(self, app: str, asked: api_pb2.Sandbox, tags: dict[str, str]) -> None:
        if app not in self.apps.values():
            raise refusal(Status.NOT_FOUND, f"App {app} not found")
        image = self.images.get(asked.image_id)
        if image is None or not image.built:
            raise refusal(Status.FAILED_PRECONDITION, f"Image {asked.image_id} is not built")
        if not asked.entrypoint_args or self.commands(asked.image_id)[-1] != "ENTRYPOINT []":
            raise invalid("the image's entrypoint would get the command for its arguments")
        running = [sandbox for sandbox in self.sandboxes.values() if not sandbox.result.status]
        if asked.name:
            if not _NAME.fullmatch(asked.name):
                raise invalid(f"{asked.name!r} is no name")
            if any((sandbox.app, sandbox.asked.name) == (app, asked.name) for sandbox in running):
                raise refusal(Status.ALREADY_EXISTS, f"Sandbox with name {asked.name} already exists")
        if not 0 < asked.timeout_secs <= 24 * 3600:
            raise invalid("timeout must be between 1 and 86400 seconds")
        if asked.resources.milli_cpu > 64_000:
            raise invalid("CPU request exceeds the maximum of 64 cores")
        if asked.HasField("idle_timeout_secs") and not 0 < asked.idle_timeout_secs:
            raise invalid("idle_timeout must be positive")
        check_tags(tags)
        check_network(asked.network_access, bool(asked.open_ports.ports))
        if len(running) >= self.faults.quota:
            raise refusal(Status.RESOURCE_EXHAUSTED, "Sandbox limit reached for this workspace")

    async def _live(self, sandbox: FakeSandbox) -> None:
        """From its start to its end."""
        await sandbox.machine.up()
        if self.faults.broken_creations:
            self.faults.broken_creations -= 1
            sandbox.machine.end()
            self._finished(
                sandbox, _Result(status=_Result.GENERIC_STATUS_FAILURE, exception="no worker is left")
            )
            return
        await self.faults.while_held("hold_creations")
        sandbox.up.set()
        try:
            async with asyncio.timeout(sandbox.asked.timeout_secs):
                code = await sandbox.machine.ended()
        except TimeoutError:
            await self.end(sandbox, timed_out=True)
            return
        if not sandbox.ending:
            status = _Result.GENERIC_STATUS_FAILURE if code else _Result.GENERIC_STATUS_SUCCESS
            self._finished(sandbox, _Result(status=status, exitcode=code))

    async def end(self, sandbox: FakeSandbox, *, timed_out: bool = False) -> None:
        """End a sandbox with all that runs in it."""
        if sandbox.ending:
            return
        sandbox.ending = True
        await self.faults.while_held("hold_removals")
        await asyncio.to_thread(sandbox.machine.end)
        status = _Result.GENERIC_STATUS_TIMEOUT if timed_out else _Result.GENERIC_STATUS_TERMINATED
        self._finished(sandbox, _Result(status=status))

    def _finished(self, sandbox: FakeSandbox, result: _Result) -> None:
        sandbox.result = result
        sandbox.up.set()
        sandbox.ended.set()

    def end_all(self) -> None:
        """End all sandboxes."""
        for sandbox in self.sandboxes.values():
            sandbox.machine.end()

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the answers."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def check_tags(tags: dict[str, str]) -> None:
    """Refuse tags other than those that apps may have."""
    for name, value in tags.items():
        if not _TAG.fullmatch(name) or not _TAG.fullmatch(value):
            raise invalid(f"Invalid tag: {name!r}: {value!r}")


def check_network(access: api_pb2.NetworkAccess, ports: bool) -> None:
    """Refuse settings that contradict each other."""
    import ipaddress

    kind = api_pb2.NetworkAccess.NetworkAccessType
    if access.network_access_type == kind.UNSPECIFIED:
        raise invalid("no kind of network access")
    lists = [*access.allowed_cidrs, *access.allowed_domains]
    if access.network_access_type != kind.ALLOWLIST and lists:
        raise invalid("lists go with an allowlist")
    if access.network_access_type == kind.BLOCKED and ports:
        raise invalid("a sandbox without a network has no open ports")
    for network in access.allowed_cidrs:
        try:
            ipaddress.IPv4Network(network)
        except ValueError as error:
            raise invalid(str(error)) from error
    for domain in access.allowed_domains:
        if ":" in domain or "/" in domain:
            raise invalid(f"{domain!r} is no domain")
