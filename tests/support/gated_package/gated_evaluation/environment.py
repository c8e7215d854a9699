"""``host_process`` with gates at its opening and closing, each an activity of its own."""

from agentcompass.contracts import EnvironmentHandle, OpenRequest
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

    async def close(self, handle: EnvironmentHandle) -> None:
        async with passing(handle.id.split("-")[1], "close"):
            # A handle that the runtime makes up for a failed opening names this provider.
            await super().close(handle.model_copy(update={"provider": HostProcess.id}))
