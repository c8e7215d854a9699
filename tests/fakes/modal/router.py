"""The router on the machine of a sandbox, to which commands, their input and their output go directly."""

from __future__ import annotations

from typing import Any

from account import Account, FakeSandbox, check_network
from checking import invalid, known, refusal, require_token, with_all_methods
from grpclib import Status
from machine import Execution
from modal_proto import task_command_router_pb2 as pb2
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

_PIECE = 256 * 1024
_LONGEST_ARGUMENTS = 2**16
_LARGEST_MESSAGE = 4 * 1024**2


class Router(with_all_methods(TaskCommandRouterBase)):  # type: ignore[misc]  # made at run time
    """Calls with the token of one task."""

    def __init__(self, account: Account) -> None:
        self._account = account

    async def TaskExecStart(self, stream: Any) -> None:
        """Start a command, once for each id; waits for the sandbox to be up."""
        fields = "task_id exec_id command_args stdout_config stderr_config timeout_secs"
        message, sandbox = await self._received(stream, *fields.split())
        await sandbox.up.wait()
        self._require_running(sandbox)
        if message.exec_id not in sandbox.executions:
            if sum(map(len, message.command_args)) > _LONGEST_ARGUMENTS or not message.command_args:
                raise invalid("the arguments are too long, or there are none")
            kept = set()
            if message.stdout_config == pb2.TASK_EXEC_STDOUT_CONFIG_PIPE:
                kept.add(1)
            if message.stderr_config == pb2.TASK_EXEC_STDERR_CONFIG_PIPE:
                kept.add(2)
            execution = sandbox.executions[message.exec_id] = Execution()
            arguments = list(message.command_args)
            await execution.start(sandbox.machine, arguments, {}, message.timeout_secs, kept)
        await stream.send_message(pb2.TaskExecStartResponse())

    async def TaskExecStdinWrite(self, stream: Any) -> None:
        """A part of what a command reads."""
        message, sandbox = await self._received(stream, "task_id", "exec_id", "offset", "data", "eof")
        if len(message.data) > _LARGEST_MESSAGE:
            raise refusal(Status.RESOURCE_EXHAUSTED, "the message is too large")
        execution = self._execution(sandbox, message.exec_id)
        try:
            await execution.write(message.offset, message.data, message.eof)
        except (ValueError, ConnectionError) as error:
            raise refusal(Status.FAILED_PRECONDITION, f"stdin: {error}") from error
        await stream.send_message(pb2.TaskExecStdinWriteResponse())

    async def TaskExecStdioRead(self, stream: Any) -> None:
        """What a command says, from an offset on, to its end."""
        message, sandbox = await self._received(stream, "task_id", "exec_id", "offset", "file_descriptor")
        execution = self._execution(sandbox, message.exec_id)
        number = {
            pb2.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT: 1,
            pb2.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR: 2,
        }[message.file_descriptor]
        output, offset = execution.output[number], message.offset
        while True:
            async with execution.changed:
                while len(output) <= offset and not execution.finished[number]:
                    await execution.changed.wait()
                piece = bytes(output[offset : offset + _PIECE])
            self._require_running(sandbox)
            if not piece:
                return
            offset += len(piece)
            await stream.send_message(pb2.TaskExecStdioReadResponse(data=piece))

    async def TaskExecWait(self, stream: Any) -> None:
        """How a command has ended, once it has."""
        message, sandbox = await self._received(stream, "task_id", "exec_id")
        execution = self._execution(sandbox, message.exec_id)
        async with execution.changed:
            while execution.code is None:
                await execution.changed.wait()
        self._require_running(sandbox)
        code = execution.code
        answer = pb2.TaskExecWaitResponse(signal=-code) if code < 0 else pb2.TaskExecWaitResponse(code=code)
        await stream.send_message(answer)

    async def TaskSetNetworkAccess(self, stream: Any) -> None:
        """Another network policy for a sandbox."""
        message, sandbox = await self._received(stream, "task_id", "network_access")
        check_network(message.network_access, bool(sandbox.asked.open_ports.ports))
        kind = type(message.network_access).NetworkAccessType
        if sandbox.network.network_access_type == kind.BLOCKED:
            raise refusal(Status.FAILED_PRECONDITION, "the sandbox was made without a network")
        sandbox.network = message.network_access
        await stream.send_message(pb2.TaskSetNetworkAccessResponse())

    async def _received(self, stream: Any, *fields: str) -> tuple[Any, FakeSandbox]:
        message = await stream.recv_message()
        bearer = stream.metadata.get("authorization", "")
        require_token(bearer.removeprefix("Bearer "), "task", message.task_id)
        self._account.faults.before(type(message).__name__.removesuffix("Request"))
        known(message, *fields)
        return message, self._account.sandbox_of_task(message.task_id)

    def _execution(self, sandbox: FakeSandbox, identity: str) -> Execution:
        execution = sandbox.executions.get(identity)
        if execution is None:
            raise refusal(Status.NOT_FOUND, f"exec {identity} was never started")
        return execution

    def _require_running(self, sandbox: FakeSandbox) -> None:
        if sandbox.ending or sandbox.result.status:
            raise refusal(Status.NOT_FOUND, "the task has finished")
