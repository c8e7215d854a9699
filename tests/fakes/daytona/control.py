"""The API in front of the sandboxes: making, finding, listing and removing them."""

from __future__ import annotations

import asyncio
import datetime
import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from checking import answer, parsed, query, refusal
from daytona_api_client import (
    CreateSandbox,
    ListSandboxesResponse,
    Sandbox,
    SandboxListItem,
    SignedPortPreviewUrl,
    UpdateSandboxNetworkSettings,
)
from faults import Faults
from machine import Machine

KEY = "fake-daytona-key"
DEFAULT_SNAPSHOT, SNAPSHOTS = "daytona-small", {"daytona-small", "busybox"}
_LARGEST_CPU = 4
_LARGEST_PAGE = 200
_STATES = ("creating", "started", "destroying")


@dataclass
class FakeSandbox:
    """One sandbox. ``destroyed`` ones are forgotten."""

    id: str
    asked: CreateSandbox
    machine: Machine
    network: dict[str, Any]
    state: str = "creating"
    error: str | None = None
    created: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat())

    @property
    def name(self) -> str:
        return self.asked.name or self.id

    def fields(self, origin: str) -> dict[str, Any]:
        """What single reads and listings have in common."""
        asked = self.asked
        return {
            "id": self.id,
            "organization_id": "organization",
            "name": self.name,
            "snapshot": asked.snapshot or (None if asked.build_info else DEFAULT_SNAPSHOT),
            "user": asked.user or "daytona",
            "labels": asked.labels or {},
            "public": bool(asked.public),
            "target": asked.target or "us",
            "cpu": asked.cpu or 1,
            "gpu": asked.gpu or 0,
            "memory": asked.memory or 1,
            "disk": asked.disk or 3,
            "state": self.state,
            "error_reason": self.error,
            "auto_stop_interval": asked.auto_stop_interval,
            "auto_delete_interval": asked.auto_delete_interval,
            "created_at": self.created,
            "toolbox_proxy_url": f"{origin}/toolbox",
            **self.network,
        }


class Control:
    """The account. ``guard`` is in front of all routes."""

    def __init__(self, folder: Path) -> None:
        self.origin = ""
        self.sandboxes: dict[str, FakeSandbox] = {}
        self.faults = Faults()
        self._folder = folder
        self._tasks: set[asyncio.Task[None]] = set()

    def routes(self) -> list[web.RouteDef]:
        """All of the API, and ``/faults`` for tests."""
        return [
            web.post("/api/sandbox", self._create),
            web.get("/api/sandbox", self._list),
            web.get("/api/sandbox/{sandbox}", self._get),
            web.delete("/api/sandbox/{sandbox}", self._delete),
            web.post("/api/sandbox/{sandbox}/network-settings", self._network),
            web.post("/api/sandbox/{sandbox}/ttl/{minutes}", self._live),
            web.get("/api/sandbox/{sandbox}/ports/{port}/signed-preview-url", self._preview),
            web.put("/faults", self._set_faults),
            web.get("/seen", self._seen),
        ]

    def end(self) -> None:
        """End all sandboxes."""
        for sandbox in self.sandboxes.values():
            sandbox.machine.end()

    @web.middleware
    async def guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Who calls, and whether somebody wants it to fail."""
        if request.path in ("/faults", "/seen"):
            return await handler(request)  # type: ignore[no-any-return]
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            raise refusal(401, "Invalid credentials")
        self.faults.before(request)
        response: web.StreamResponse = await handler(request)
        self.faults.after(request)
        return response

    async def _create(self, request: web.Request) -> web.Response:
        query(request)
        asked = await parsed(request, CreateSandbox)
        self._check(asked)
        identity = str(uuid.uuid4())
        network = {
            "network_block_all": bool(asked.network_block_all),
            "network_allow_list": asked.network_allow_list,
            "domain_allow_list": asked.domain_allow_list,
        }
        sandbox = FakeSandbox(identity, asked, Machine(self._folder / identity, asked.snapshot), network)
        self.sandboxes[identity] = sandbox
        self._later(self._start(sandbox))
        return answer(self._full(sandbox))

    def _check(self, asked: CreateSandbox) -> None:
        if asked.snapshot and asked.build_info:
            raise refusal(400, "Cannot specify a snapshot when using a build info entry")
        if not asked.build_info and any((asked.cpu, asked.memory, asked.disk, asked.gpu)):
            raise refusal(400, "Cannot specify Sandbox resources when using a snapshot")
        if asked.snapshot and asked.snapshot not in SNAPSHOTS:
            raise refusal(400, f"Snapshot {asked.snapshot} not found. Did you add it through the Dashboard?")
        if (asked.cpu or 1) > _LARGEST_CPU:
            raise refusal(
                403, f"CPU request {asked.cpu} exceeds maximum allowed per sandbox ({_LARGEST_CPU})."
            )
        lists = [asked.network_block_all, asked.network_allow_list, asked.domain_allow_list]
        if sum(map(bool, lists)) > 1:
            raise refusal(400, "networkBlockAll, networkAllowList and domainAllowList exclude each other")
        if any(sandbox.name == asked.name for sandbox in self.sandboxes.values()):
            raise refusal(409, f"Sandbox with name {asked.name} already exists")
        if len(self.sandboxes) >= self.faults.quota:
            raise refusal(403, f"Total CPU limit exceeded. Maximum allowed: {self.faults.quota}.")

    async def _start(self, sandbox: FakeSandbox) -> None:
        while not sandbox.machine.ready:  # noqa: ASYNC110  # a file appears
            await asyncio.sleep(0.01)
        await self.faults.creation()
        if self.faults.broken_creations:
            self.faults.broken_creations -= 1
            sandbox.state, sandbox.error = "error", "no runner is left"
        elif sandbox.state == "creating":
            sandbox.state = "started"

    async def _get(self, request: web.Request) -> web.Response:
        query(request)
        return answer(self._full(self._found(request)))

    async def _list(self, request: web.Request) -> web.Response:
        asked = query(request, "labels", "cursor", "limit")
        limit = int(asked.get("limit", "100"))
        if not 1 <= limit <= _LARGEST_PAGE:
            raise refusal(400, f"limit must be between 1 and {_LARGEST_PAGE}")
        labels = json.loads(asked.get("labels", "{}"))
        matching = [
            sandbox
            for sandbox in self.sandboxes.values()
            if labels.items() <= (sandbox.asked.labels or {}).items()
        ]
        start = int(asked.get("cursor", "0"))
        limit = min(limit, self.faults.page)
        shown = matching[start : start + limit]
        following = str(start + limit) if start + limit < len(matching) else None
        items = [SandboxListItem.model_validate(sandbox.fields(self.origin)) for sandbox in shown]
        page = ListSandboxesResponse(items=items, next_cursor=following)
        data = [
            item.model_dump(mode="json", by_alias=True, exclude={"additional_properties"})
            for item in page.items
        ]
        return web.json_response({"items": data, "nextCursor": page.next_cursor})

    async def _delete(self, request: web.Request) -> web.Response:
        query(request)
        sandbox = self._found(request)
        if sandbox.state == "destroying":
            raise refusal(409, "Sandbox state change in progress")
        sandbox.state = "destroying"
        self._later(self._destroy(sandbox))
        return answer(self._full(sandbox))

    async def _destroy(self, sandbox: FakeSandbox) -> None:
        await asyncio.to_thread(sandbox.machine.end)
        del self.sandboxes[sandbox.id]

    async def _network(self, request: web.Request) -> web.Response:
        query(request)
        sandbox = self._found(request)
        wanted = await parsed(request, UpdateSandboxNetworkSettings)
        values = [wanted.network_block_all, wanted.network_allow_list, wanted.domain_allow_list]
        if sum(value is not None for value in values) != 1 or "" in values:
            raise refusal(400, "exactly one setting has to be given")
        sandbox.network = {
            "network_block_all": bool(wanted.network_block_all),
            "network_allow_list": wanted.network_allow_list,
            "domain_allow_list": wanted.domain_allow_list,
        }
        return answer(self._full(sandbox))

    async def _live(self, request: web.Request) -> web.Response:
        query(request)
        sandbox = self._found(request)
        sandbox.asked.ttl_minutes = int(request.match_info["minutes"])
        return answer(self._full(sandbox))

    async def _preview(self, request: web.Request) -> web.Response:
        query(request, "expiresInSeconds")
        sandbox, port = self._found(request), int(request.match_info["port"])
        token = uuid.uuid4().hex[:12]
        url = f"https://{port}-{token}.proxy.invalid"
        return answer(SignedPortPreviewUrl(sandbox_id=sandbox.id, port=port, token=token, url=url))

    async def _set_faults(self, request: web.Request) -> web.Response:
        wanted = await request.json()
        stopped = self.sandboxes.get(wanted.pop("stopped", ""))
        if stopped is not None:
            # As Daytona does when nobody has called for long, but without the deletion that follows.
            await asyncio.to_thread(stopped.machine.end)
            stopped.state = "stopped"
        self.faults.change(wanted)
        return web.json_response({})

    async def _seen(self, request: web.Request) -> web.Response:
        sandboxes = [self._full(sandbox).to_dict() for sandbox in self.sandboxes.values()]
        asked = [sandbox.asked.to_dict() for sandbox in self.sandboxes.values()]
        seen = {"sandboxes": sandboxes, "asked": asked, "requests": self.faults.requests}
        return web.json_response(seen, dumps=lambda value: json.dumps(value, default=str))

    def _found(self, request: web.Request) -> FakeSandbox:
        wanted = request.match_info["sandbox"]
        for sandbox in self.sandboxes.values():
            if wanted in (sandbox.id, sandbox.name):
                return sandbox
        raise refusal(404, f"Sandbox with ID or name {wanted} not found")

    def _full(self, sandbox: FakeSandbox) -> Sandbox:
        more = {"env": sandbox.asked.env or {}, "kvm": False}
        return Sandbox.model_validate(sandbox.fields(self.origin) | more)

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
