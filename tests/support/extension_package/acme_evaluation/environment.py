"""Sandboxes that are directories on another Linux machine, reached by ``ssh``."""

import asyncio
import io
import json
import re
import shlex
import shutil
import tarfile
import tempfile
import time
import uuid
from pathlib import Path, PurePosixPath

from pydantic import Field

from agentcompass.contracts import (
    Command,
    Contract,
    Environment,
    EnvironmentCapabilities,
    EnvironmentHandle,
    EnvironmentLostError,
    EnvironmentRecord,
    EnvironmentSession,
    EnvironmentSpec,
    ExecResult,
    OpenRequest,
    Output,
    ProcessStatus,
    ServiceUnreachableError,
)

MISSING = 44  # exit status of our own scripts for "there is no such thing"
KEPT = 65536  # bytes that are kept of each end of a stream


class SshParams(Contract):
    """Parameters, as in ``--env-params '{"transport": ["ssh", "-o", "BatchMode=yes", "build-7"]}'``."""

    transport: list[str] = Field(min_length=1)
    """A command that executes the shell command it gets as its last argument."""
    root: str = Field(default="/tmp/agentcompass", pattern=r"^/[\w./-]+$")


class SshSession(EnvironmentSession):
    """All state is on the other machine, so a session can be dropped and made again from the handle."""

    def __init__(self, transport: list[str], handle: EnvironmentHandle) -> None:
        self.handle = handle
        self._transport = transport
        self._home = str(handle.data["home"])

    @property
    def workdir(self) -> str:
        return f"{self._home}/work"

    async def shell(self, script: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        """Run a script of our own on the other machine: status, stdout, stderr."""
        process = await asyncio.create_subprocess_exec(
            *self._transport,
            script,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            stdout, stderr = await process.communicate(stdin)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode == 255:
            raise ConnectionError(f"{shlex.join(self._transport)}: {stderr.decode(errors='replace')[-300:]}")
        return process.returncode or 0, stdout, stderr

    async def checked(self, script: str, stdin: bytes = b"") -> bytes:
        status, stdout, stderr = await self.shell(script, stdin)
        if status == MISSING:
            raise FileNotFoundError(stderr.decode(errors="replace").strip() or script)
        if status:
            raise OSError(f"status {status} on the remote machine: {stderr.decode(errors='replace')[-300:]}")
        return stdout

    async def _script(self, mark: str, command: Command, cwd: str | None, env: dict[str, str] | None) -> str:
        """A file with the command. Variables are in it and not in arguments, which anybody can list."""
        if not re.fullmatch(r"[\w.-]+", mark):
            raise ValueError(f"{mark!r} cannot be the id of a process")
        line = (
            f"exec sh -c {shlex.quote(command)}"
            if isinstance(command, str)
            else f"exec {shlex.join(command)}"
        )
        variables = {**self.variables, **(env or {})}
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        path = f"{self._home}/scripts/{mark}"
        text = f". {self._home}/variables\n{exports}cd {shlex.quote(cwd or self.workdir)} || exit 1\n{line}\n"
        await self.write(path, text.encode(), mode=0o600)
        # Whatever the command starts inherits the marks; that is how it is found and ended later.
        return f"env AC_SANDBOX={self.handle.id} AC_PROCESS={self.handle.id}/{mark} sh {path}"

    async def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_seconds: float | None = None,
        stdin: bytes | None = None,
        user: str | None = None,
    ) -> ExecResult:
        self._refuse_user(user)
        mark, started, status = f"exec-{uuid.uuid4().hex}", time.monotonic(), None
        script = await self._script(mark, command, cwd, env)
        streams = [f"{self._home}/scripts/{mark}.{name}" for name in ("stdout", "stderr")]
        # 255 is how ssh says that ssh itself failed.
        run = f"{script} >{streams[0]} 2>{streams[1]}; code=$?; [ $code = 255 ] && exit 254; exit $code"
        try:
            async with asyncio.timeout(timeout_seconds):
                status, _, _ = await self.shell(run, stdin or b"")
        except TimeoutError:
            pass  # told by timed_out
        finally:  # after a timeout or a cancellation nothing of it may go on
            if status is None:
                await self._end(f"AC_PROCESS={self.handle.id}/{mark}", grace_seconds=0)
        return ExecResult(
            returncode=_returncode(status),
            stdout=await self._output(streams[0]),
            stderr=await self._output(streams[1]),
            timed_out=status is None,
            seconds=time.monotonic() - started,
        )

    async def _output(self, path: str) -> Output:
        ends = await self.checked(
            f"cd / && stat -c %s {path} && head -c {KEPT} {path} && tail -c +{KEPT + 1} {path} | tail -c {KEPT}"
        )
        size, _, data = ends.partition(b"\n")
        return Output(head=data[:KEPT], tail=data[KEPT:], total_bytes=int(size), path=path)

    async def start_process(
        self,
        process_id: str,
        command: Command,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
    ) -> ProcessStatus:
        self._refuse_user(user)
        script = await self._script(process_id, command, cwd, env)
        run = f"{script} >stdout 2>stderr </dev/null; echo $? >status.new; mv status.new status"
        # ln fails when the name exists: of two starts of one id, one does nothing. The directory behind
        # the name is complete, but for the number of the process, which the lock on it waits for.
        await self.checked(
            f"cd {self._home}/processes && new=$(mktemp -d .XXXXXX) && cd $new && : >stdout && : >stderr\n"
            f"exec 9>pid && flock 9 && ln -sT $new ../{process_id} 2>/dev/null || exit 0\n"
            f"setsid sh -c {shlex.quote(run)} >/dev/null 2>&1 </dev/null 9>&- & echo $! >&9"
        )
        status = await self.process_status(process_id)
        assert status is not None  # its directory exists now
        return status

    async def process_status(self, process_id: str) -> ProcessStatus | None:
        status, stdout, _ = await self.shell(
            f"cd {self._home}/processes/{process_id} 2>/dev/null || exit {MISSING}; flock -s pid true\n"
            # The name of its script, so that another process under a reused number is not taken for it.
            f"grep -qsF -- {self._home}/scripts/{process_id} /proc/$(cat pid)/cmdline && running=1 || running=0\n"
            "echo $running $(stat -c %Y pid) $(stat -c %s stdout) $(stat -c %s stderr) $(cat status 2>/dev/null)"
        )
        if status == MISSING:
            return None
        running, started_at, out, err, *code = (int(word) for word in stdout.split())
        return ProcessStatus(
            process_id=process_id,
            running=bool(running) and not code,
            returncode=_returncode(code[0] if code else None),
            started_at=started_at,
            stdout_bytes=out,
            stderr_bytes=err,
        )

    async def read_process_output(
        self, process_id: str, stream: str, offset: int, max_bytes: int = 65536
    ) -> bytes:
        path = f"{self._home}/processes/{process_id}/{stream}"
        return await self.checked(f"tail -c +{offset + 1} {shlex.quote(path)} | head -c {max_bytes}")

    async def end_process(self, process_id: str, *, grace_seconds: float = 2.0) -> None:
        await self._end(f"AC_PROCESS={self.handle.id}/{process_id}", grace_seconds)

    async def end_all_processes(self) -> int:
        return await self._end(f"AC_SANDBOX={self.handle.id}", grace_seconds=0)

    async def _end(self, mark: str, grace_seconds: float) -> int:
        """TERM, wait, KILL for every process with a mark in its environment; how many there were."""
        stdout = await self.checked(
            f"found() {{ grep -lzsxF -- {shlex.quote(mark)} /proc/[0-9]*/environ | cut -d/ -f3; }}\n"
            "found | wc -l\n"
            f'for round in $(seq {round(grace_seconds * 10)}); do pids=$(found); [ -z "$pids" ] && exit 0\n'
            "  kill -TERM $pids 2>/dev/null; sleep 0.1; done\n"
            'while pids=$(found); [ -n "$pids" ]; do kill -KILL $pids 2>/dev/null; sleep 0.02; done'
        )
        return int(stdout)

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        quoted = shlex.quote(path)
        limit = "" if max_bytes is None else f"head -c {max_bytes + 1} {quoted}; exit"
        data = await self.checked(
            f"[ -f {quoted} ] || {{ echo {quoted} >&2; exit {MISSING}; }}\n{limit}\ncat {quoted}"
        )
        if max_bytes is not None and len(data) > max_bytes:
            raise ValueError(f"{path} is longer than {max_bytes} bytes")
        return data

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        target, parent = shlex.quote(path), shlex.quote(str(PurePosixPath(path).parent))
        # In place by a rename, so that nobody reads one half of it.
        await self.checked(
            f"umask 077; mkdir -p {parent} && new=$(mktemp {parent}/.XXXXXX) && cat >$new"
            f" && chmod {mode:o} $new && mv -fT $new {target}",
            data,
        )

    async def upload(self, source: Path, destination: str) -> None:
        target = PurePosixPath(destination)
        archive = await asyncio.to_thread(_pack, source, target.name)
        parent = shlex.quote(str(target.parent))
        await self.checked(f"mkdir -p {parent} && tar -xC {parent}", archive)

    async def download(self, source: str, destination: Path) -> None:
        path = PurePosixPath(source)
        parent, name = shlex.quote(str(path.parent)), shlex.quote(path.name)
        archive = await self.checked(f"cd {parent} && [ -e {name} ] || exit {MISSING}; tar -c {name}")
        await asyncio.to_thread(_unpack, archive, path.name, destination)

    def _refuse_user(self, user: str | None) -> None:
        if user is not None:
            raise ValueError("the ssh environment runs everything as its login user")


class Ssh(Environment[SshParams]):
    """Needs a login without a password; every sandbox is a directory below ``root``."""

    id = "ssh"
    description = "A directory on another machine"
    Params = SshParams
    capabilities = EnvironmentCapabilities(isolated=False)

    def _handle(self, environment_id: str) -> EnvironmentHandle:
        home = f"{self.params.root}/{environment_id}"
        return EnvironmentHandle(provider=self.id, id=environment_id, data={"home": home})

    async def preflight(self, spec: EnvironmentSpec) -> None:
        status, _, stderr = await SshSession(self.params.transport, self._handle("-")).shell(
            "command -v setsid"
        )
        if status:
            raise ServiceUnreachableError(
                f"{shlex.join(self.params.transport)}: {stderr.decode(errors='replace')}"
            )

    async def open(self, request: OpenRequest) -> SshSession:
        session = SshSession(self.params.transport, self._handle(request.environment_id))
        home = session.handle.data["home"]
        await session.checked(f"umask 077; mkdir -p {home}/work {home}/processes {home}/scripts")
        exports = [f"export {name}={shlex.quote(value)}\n" for name, value in request.env_variables.items()]
        await session.write(f"{home}/labels.json", json.dumps(request.labels).encode())
        await session.write(f"{home}/variables", "".join(exports).encode(), mode=0o600)
        return session

    async def attach(self, handle: EnvironmentHandle) -> SshSession:
        session = SshSession(self.params.transport, handle)
        if (await session.shell(f"[ -d {handle.data['home']}/work ]"))[0]:
            raise EnvironmentLostError(f"{handle.id} does not exist any more")
        return session

    async def close(self, handle: EnvironmentHandle) -> None:
        session = SshSession(self.params.transport, handle)
        await session.end_all_processes()
        await session.checked(f"rm -rf {handle.data['home']}")

    async def list_environments(self, labels: dict[str, str] | None = None) -> list[EnvironmentRecord]:
        script = f"cd {self.params.root} 2>/dev/null || exit 0; grep -sH '' */labels.json || true"
        stdout = await SshSession(self.params.transport, self._handle("-")).checked(script)
        records = []
        for line in stdout.decode().splitlines():
            place, _, text = line.partition(":")
            found = json.loads(text)
            if (labels or {}).items() <= found.items():
                records.append(EnvironmentRecord(handle=self._handle(place.split("/")[0]), labels=found))
        return records


def _returncode(status: int | None) -> int | None:
    """A shell reports death by signal n as 128 + n, this contract as -n."""
    return 128 - status if status is not None and status > 128 else status


def _pack(source: Path, name: str) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(source, arcname=name)
    return archive.getvalue()


def _unpack(archive: bytes, name: str, destination: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter=_inside)
        found = Path(folder) / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        if found.is_dir():
            shutil.copytree(found, destination, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(found, destination)


def _inside(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
    """Leave out what would reach outside of the destination."""
    try:
        return tarfile.data_filter(member, path)
    except tarfile.FilterError:
        return None
