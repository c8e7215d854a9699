"""Modal's control plane: who one is, apps, and making, finding, listing and ending sandboxes."""

from __future__ import annotations

import asyncio
from typing import Any

from account import Account, FakeSandbox, check_tags
from checking import invalid, known, refusal, require_account, require_token, token, with_all_methods
from google.protobuf import empty_pb2
from grpclib import Status
from images import Images
from modal_proto import api_pb2
from modal_proto.api_grpc import ModalClientBase

BUILDER_VERSION = "2025.06"
ENVIRONMENT = "main"
_DEFINITION = (
    "entrypoint_args image_id resources timeout_secs idle_timeout_secs scheduler_placement open_ports "
    "network_access name"
).split()


class Control(Images, with_all_methods(ModalClientBase)):  # type: ignore[misc]  # made at run time
    """Calls that the SDK makes for us; each with the account's token."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.url = ""

    async def received(self, stream: Any, *fields: str, auth_token: bool = False) -> Any:
        """The message of a call that may be made, with none but these fields."""
        message = await stream.recv_message()
        require_account(stream.metadata)
        if auth_token:
            require_token(stream.metadata.get("x-modal-auth-token"), "auth", "account")
        self.account.faults.before(type(message).__name__.removesuffix("Request"))
        known(message, *fields)
        return message

    async def ClientHello(self, stream: Any) -> None:
        """Whether the token is good."""
        await self.received(stream)
        await stream.send_message(api_pb2.ClientHelloResponse(image_builder_version=BUILDER_VERSION))

    async def AuthTokenGet(self, stream: Any) -> None:
        """A second token, for newer calls."""
        await self.received(stream)
        await stream.send_message(api_pb2.AuthTokenGetResponse(token=token("auth", "account")))

    async def EnvironmentGetOrCreate(self, stream: Any) -> None:
        """Settings of the only environment there is."""
        message = await self.received(stream, "deployment_name", "object_creation_type")
        self._environment(message.deployment_name)
        settings = api_pb2.EnvironmentSettings(image_builder_version=BUILDER_VERSION)
        metadata = api_pb2.EnvironmentMetadata(name=ENVIRONMENT, settings=settings)
        await stream.send_message(
            api_pb2.EnvironmentGetOrCreateResponse(environment_id="en-1", metadata=metadata)
        )

    async def AppGetOrCreate(self, stream: Any) -> None:
        """An app by its name."""
        message = await self.received(stream, "app_name", "environment_name", "object_creation_type")
        self._environment(message.environment_name)
        app = self.account.apps.get(message.app_name)
        if app is None:
            if message.object_creation_type != api_pb2.OBJECT_CREATION_TYPE_CREATE_IF_MISSING:
                raise refusal(Status.NOT_FOUND, f"App {message.app_name} not found")
            app = self.account.apps[message.app_name] = f"ap-{len(self.account.apps):022d}"
        await stream.send_message(api_pb2.AppGetOrCreateResponse(app_id=app))

    async def SandboxCreateV2(self, stream: Any) -> None:
        """Make a sandbox, once for each idempotency key."""
        message = await self.received(stream, "app_id", "definition", "tags", auth_token=True)
        if message.definition.resources.gpu_config.count:
            raise invalid("GPUs are not supported here")
        sandbox = self._made(stream, message, v1=False)
        if self.account.faults.lost_answers:
            self.account.faults.lost_answers -= 1
            raise refusal(Status.UNAVAILABLE, "upstream went away")
        access = api_pb2.CommandRouterAccess(url=self.url, jwt=token("task", sandbox.task))
        await stream.send_message(
            api_pb2.SandboxCreateV2Response(
                sandbox_id=sandbox.id, task_id=sandbox.task, command_router_access=access
            )
        )

    async def SandboxCreate(self, stream: Any) -> None:
        """The older way, by which sandboxes with GPUs are made."""
        message = await self.received(stream, "app_id", "definition", "tags")
        sandbox = self._made(stream, message, v1=True)
        await stream.send_message(api_pb2.SandboxCreateResponse(sandbox_id=sandbox.id))

    def _made(self, stream: Any, message: Any, *, v1: bool) -> FakeSandbox:
        key = stream.metadata.get("x-idempotency-key")
        if not key:
            raise invalid("a creation needs an idempotency key")
        if key in self.account.created:
            return self.account.created[key]
        known(message.definition, *_DEFINITION)
        tags = {tag.tag_name: tag.tag_value for tag in message.tags}
        made = self.account.create(message.app_id, message.definition, tags, v1)
        self.account.created[key] = made
        return made

    async def SandboxGetTaskId(self, stream: Any, *, newer: bool = False) -> None:
        """The task of a sandbox, once it is there."""
        message = await self.received(stream, "sandbox_id", auth_token=newer)
        sandbox = self._sandbox(message.sandbox_id)
        if sandbox.result.status:
            await stream.send_message(api_pb2.SandboxGetTaskIdResponse(task_result=sandbox.result))
        elif not newer and not sandbox.up.is_set():
            await stream.send_message(api_pb2.SandboxGetTaskIdResponse())
        else:
            await stream.send_message(api_pb2.SandboxGetTaskIdResponse(task_id=sandbox.task))

    async def SandboxGetTaskIdV2(self, stream: Any) -> None:
        """The same."""
        await self.SandboxGetTaskId(stream, newer=True)

    async def SandboxGetCommandRouterAccess(self, stream: Any) -> None:
        """Where commands for a sandbox go."""
        message = await self.received(stream, "sandbox_id", auth_token=True)
        sandbox = self._running(message.sandbox_id)
        await stream.send_message(
            api_pb2.SandboxGetCommandRouterAccessResponse(url=self.url, jwt=token("task", sandbox.task))
        )

    async def TaskGetCommandRouterAccess(self, stream: Any) -> None:
        """The same, by the task."""
        message = await self.received(stream, "task_id")
        sandbox = self.account.sandbox_of_task(message.task_id)
        await stream.send_message(
            api_pb2.TaskGetCommandRouterAccessResponse(url=self.url, jwt=token("task", sandbox.task))
        )

    async def SandboxGetFromName(self, stream: Any, *, newer: bool = False) -> None:
        """The running sandbox of a name."""
        message = await self.received(
            stream, "sandbox_name", "app_name", "environment_name", auth_token=newer
        )
        self._environment(message.environment_name)
        app = self.account.apps.get(message.app_name)
        for sandbox in self.account.sandboxes.values():
            names = (sandbox.app, sandbox.asked.name)
            if names == (app, message.sandbox_name) and not sandbox.result.status and newer == sandbox.newer:
                await stream.send_message(api_pb2.SandboxGetFromNameResponse(sandbox_id=sandbox.id))
                return
        raise refusal(Status.NOT_FOUND, f"Sandbox with name {message.sandbox_name} not found")

    async def SandboxGetFromNameV2(self, stream: Any) -> None:
        """The same."""
        await self.SandboxGetFromName(stream, newer=True)

    async def SandboxWait(self, stream: Any, *, newer: bool = False) -> None:
        """How a sandbox has ended, if it has within so many seconds."""
        message = await self.received(stream, "sandbox_id", "timeout", auth_token=newer)
        sandbox = self._sandbox(message.sandbox_id)
        try:
            async with asyncio.timeout(message.timeout):
                await sandbox.ended.wait()
        except TimeoutError:
            pass
        await stream.send_message(api_pb2.SandboxWaitResponse(result=sandbox.result))

    async def SandboxWaitV2(self, stream: Any) -> None:
        """The same."""
        await self.SandboxWait(stream, newer=True)

    async def SandboxTerminate(self, stream: Any, *, newer: bool = False) -> None:
        """Begin to end a sandbox."""
        message = await self.received(stream, "sandbox_id", auth_token=newer)
        sandbox = self._sandbox(message.sandbox_id)
        self.account.later(self.account.end(sandbox))
        await stream.send_message(api_pb2.SandboxTerminateResponse(existing_result=sandbox.result))

    async def SandboxTerminateV2(self, stream: Any) -> None:
        """The same."""
        await self.SandboxTerminate(stream, newer=True)

    async def SandboxTagsGet(self, stream: Any, *, newer: bool = False) -> None:
        """The tags of a sandbox."""
        message = await self.received(stream, "sandbox_id", auth_token=newer)
        tags = self._sandbox(message.sandbox_id).tags
        found = [api_pb2.SandboxTag(tag_name=name, tag_value=value) for name, value in tags.items()]
        await stream.send_message(api_pb2.SandboxTagsGetResponse(tags=found))

    async def SandboxTagsGetV2(self, stream: Any) -> None:
        """The same."""
        await self.SandboxTagsGet(stream, newer=True)

    async def SandboxTagsSetV2(self, stream: Any) -> None:
        """Other tags for a sandbox."""
        message = await self.received(stream, "sandbox_id", "tags", auth_token=True)
        sandbox = self._running(message.sandbox_id)
        tags = {tag.tag_name: tag.tag_value for tag in message.tags}
        check_tags(tags)
        sandbox.tags = tags
        await stream.send_message(empty_pb2.Empty())

    async def SandboxListV2(self, stream: Any) -> None:
        """A page of the running sandboxes with some tags, the latest first."""
        message = await self.received(stream, "app_id", "before_timestamp", "tags", auth_token=True)
        if message.app_id not in self.account.apps.values():
            raise refusal(Status.NOT_FOUND, "App not found")
        wanted = {tag.tag_name: tag.tag_value for tag in message.tags}.items()
        matching = [
            sandbox
            for sandbox in reversed(self.account.sandboxes.values())
            if sandbox.app == message.app_id
            and not sandbox.result.status
            and wanted <= sandbox.tags.items()
            and (not message.before_timestamp or sandbox.created < message.before_timestamp)
        ]
        shown = [
            api_pb2.SandboxInfo(id=sandbox.id, created_at=sandbox.created, app_id=sandbox.app)
            for sandbox in matching[: self.account.faults.page]
        ]
        await stream.send_message(api_pb2.SandboxListResponse(sandboxes=shown))

    async def SandboxGetTunnels(self, stream: Any, *, newer: bool = False) -> None:
        """Addresses of the ports that a sandbox was made with."""
        message = await self.received(stream, "sandbox_id", "timeout", auth_token=newer)
        sandbox = self._running(message.sandbox_id)
        tunnels = [
            api_pb2.TunnelData(
                host=f"{port.port}-{sandbox.id}.proxy.invalid", port=443, container_port=port.port
            )
            for port in sandbox.asked.open_ports.ports
        ]
        await stream.send_message(api_pb2.SandboxGetTunnelsResponse(tunnels=tunnels))

    async def SandboxGetTunnelsV2(self, stream: Any) -> None:
        """The same."""
        await self.SandboxGetTunnels(stream, newer=True)

    def _sandbox(self, identity: str) -> FakeSandbox:
        sandbox = self.account.sandboxes.get(identity)
        if sandbox is None:
            raise refusal(Status.NOT_FOUND, f"Sandbox {identity} not found")
        return sandbox

    def _running(self, identity: str) -> FakeSandbox:
        sandbox = self._sandbox(identity)
        if sandbox.result.status or sandbox.ending:
            raise refusal(Status.FAILED_PRECONDITION, f"Sandbox {identity} has already finished")
        return sandbox

    def _environment(self, name: str) -> None:
        if name not in ("", ENVIRONMENT):
            raise refusal(Status.NOT_FOUND, f"Environment {name} not found")
