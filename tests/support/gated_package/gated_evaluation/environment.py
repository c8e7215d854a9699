"""``host_process`` with gates at its opening and closing, each an activity of its own, and at uploads."""

from pathlib import Path

from agentcompass.contracts import EnvironmentHandle, EnvironmentSession, OpenRequest
from agentcompass.plugins.environments.host_process import HostProcess

from .gate import passing


class GatedProcess(HostProcess):
    """Not quick: what finished before is recorded before the next phase begins."""

    id = "gated"
    description = "host_process with gates"
    quick_hooks = frozenset()

    async def open(self, request: OpenRequest):  # type: ignore[no-untyped-def]  # the session's class is private
        async with passing(request.labels["task"], "open"):
            return await super().open(request)

    async def attach(self, handle: EnvironmentHandle):  # type: ignore[no-untyped-def]  # the session's class is private
        return _gated(await super().attach(handle), _task_of(handle))

    async def close(self, handle: EnvironmentHandle) -> None:
        async with passing(_task_of(handle), "close"):
            # A handle that the runtime makes up for a failed opening names this provider.
            await super().close(handle.model_copy(update={"provider": HostProcess.id}))


def _task_of(handle: EnvironmentHandle) -> str:
    return handle.id.split("-")[1]


def _gated(session: EnvironmentSession, task: str) -> EnvironmentSession:
    """The session, with a gate before each file that is put into it: ``upload_<name>``."""
    upload = session.upload

    async def gated_upload(source: Path, target: str) -> None:
        async with passing(task, f"upload_{Path(target).name}"):
            await upload(source, target)

    session.upload = gated_upload  # type: ignore[method-assign]  # this one session's
    return session
