"""Making the sandbox of an opening, or taking up the one that an earlier try has made."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from ....contracts.environment import EnvironmentLostError, OpenRequest
from ....contracts.errors import ServiceUnreachableError, UsageError
from ....contracts.network import NetworkMode
from ..shared.cancellation import finish
from .api import (
    ModalApi,
    ModalError,
    ModalExhaustedError,
    ModalExistsError,
    ModalInvalidError,
    ModalMissingError,
)
from .images import image_for
from .network import network_settings
from .params import ModalParams
from .records import Facts, is_kept, sandbox_name, tags_of

if TYPE_CHECKING:
    import modal

_QUOTA_PAUSE_SECONDS, _PAUSE_SECONDS = 5.0, 1.0
_COMMAND = ("env", "AGENTCOMPASS_COMMAND=sandbox", "sh", "-c", "while :; do sleep 3600 & wait $!; done")
"""What a sandbox lives by, which also takes leave of orphans that have ended. The mark tells it from what agents
leave behind."""


class Creation:
    """One opening. ``made`` is what it has made itself, complete or not."""

    def __init__(self, api: ModalApi, params: ModalParams, request: OpenRequest) -> None:
        self.made: modal.Sandbox | None = None
        self._api = api
        self._params = params
        self._request = request
        self._deadline = 0.0

    async def run(self) -> Facts:
        """The running sandbox. Raises ``UsageError``, ``ServiceUnreachableError``, ``OSError``, ``TimeoutError``."""
        try:
            app = await self._api.app(make=True)
            image = await image_for(self._api, app, self._request.spec.setup, self._params)
            self._deadline = time.monotonic() + self._params.open_timeout_seconds
            while True:
                facts = await self._made_or_found(app, image)
                if facts is not None and await self._is_up(facts.sandbox):
                    return facts
                await self._pause(_PAUSE_SECONDS, "cannot be made")
        except ModalError as error:
            raise OSError(f"Modal makes no sandbox of {self._request.environment_id!r}: {error}") from error

    async def _made_or_found(self, app: modal.App, image: modal.Image) -> Facts | None:
        """The sandbox; ``None`` when the one that was in the way has ended by now."""
        tags = tags_of(self._request)
        while True:
            try:
                making = self._make(app, image, tags)
                # Cut off half-way, nobody would know of it. With GPUs the SDK waits for them to be free, and ends
                # what it has made when that is cancelled.
                made = await (making if self._request.spec.resources.gpu else finish(making))
                return Facts.of(made, tags)
            except ModalExistsError:
                return await self._found()
            except ModalExhaustedError as error:
                await self._wait_for_quota(error)
            except ModalInvalidError as error:
                raise UsageError(f"Modal refuses the sandbox: {error}") from error
            except ServiceUnreachableError as error:
                if self._request.spec.resources.gpu and isinstance(error.__cause__, TimeoutError):
                    raise self._late("waits for GPUs") from error
                raise

    async def _make(self, app: modal.App, image: modal.Image, tags: dict[str, str]) -> modal.Sandbox:
        import modal

        settings = self._settings()
        self.made = await self._api.call(
            lambda: modal.Sandbox.create.aio(
                *_COMMAND, app=app, image=image, tags=tags, client=self._api.client, **settings
            ),
            seconds=max(1.0, self._deadline - time.monotonic()),
            wait_for_quota=False,
        )
        return self.made

    async def _found(self) -> Facts | None:
        name = sandbox_name(self._request.environment_id)
        try:
            sandbox = await self._api.named(name)
            facts = Facts.of(sandbox, await self._api.tags(sandbox))
        except ModalMissingError:
            return None
        if facts.environment_id != self._request.environment_id:
            raise UsageError(f"the name {name!r} belongs to somebody else's sandbox at Modal; end it")
        return facts

    async def _is_up(self, sandbox: modal.Sandbox) -> bool:
        """Wait until commands can be run: Modal answers before the container is there.

        False for one of an earlier try that has ended instead.
        """

        async def look() -> None:
            process = await sandbox.exec.aio("sh", "-c", ":")
            await process.wait.aio()

        left = max(0.1, self._deadline - time.monotonic())
        try:
            async with asyncio.timeout(left):
                await self._api.call(look, seconds=left)
            return True
        except ModalMissingError as error:
            if self.made is None:
                return False
            raise OSError(
                f"the sandbox of {self._request.environment_id!r} has ended before it was up: {error}"
            ) from error
        except (TimeoutError, ServiceUnreachableError) as error:
            raise self._late("is not up") from error

    async def _wait_for_quota(self, error: ModalExhaustedError) -> None:
        """Wait while other sandboxes hold the quota."""
        try:
            await self._pause(_QUOTA_PAUSE_SECONDS, f"waits for quota: {error}")
        except TimeoutError as late:
            raise ServiceUnreachableError(f"there is no room at Modal: {error}") from late

    async def _pause(self, seconds: float, doing: str) -> None:
        if time.monotonic() + seconds > self._deadline:
            raise self._late(doing)
        await asyncio.sleep(seconds)

    def _late(self, doing: str) -> TimeoutError:
        return TimeoutError(
            f"the sandbox of {self._request.environment_id!r} {doing} after "
            f"{self._params.open_timeout_seconds:g} s (open_timeout_seconds)"
        )

    def _settings(self) -> dict[str, Any]:
        params, request = self._params, self._request
        resources = request.spec.resources
        settings: dict[str, Any] = {
            "name": sandbox_name(request.environment_id),
            "timeout": params.lifetime_minutes * 60,
            "region": params.region,
        }
        if params.idle_timeout_minutes and not is_kept(request):
            settings["idle_timeout"] = params.idle_timeout_minutes * 60
        # Each as a request and as a limit.
        if resources.cpu is not None:
            settings["cpu"] = (resources.cpu, resources.cpu)
        if resources.memory_mb is not None:
            settings["memory"] = (resources.memory_mb, resources.memory_mb)
        if resources.gpu:
            settings["gpu"] = f"{params.gpu_type}:{resources.gpu}"
        if not params.network_switching and request.network_policy.network_mode is NetworkMode.NO_NETWORK:
            return settings | {"block_network": True}
        settings["encrypted_ports"] = params.ports
        return settings | network_settings(request.network_policy).lists()


async def living(api: ModalApi, environment_id: str, sandbox_id: str) -> Facts:
    """The running sandbox. Raises ``EnvironmentLostError`` when it has ended or is gone."""
    try:
        sandbox = await api.identified(sandbox_id)
        if sandbox.returncode is not None:
            raise EnvironmentLostError(
                f"environment {environment_id!r} is gone: its sandbox has ended with status {sandbox.returncode}"
            )
        return Facts.of(sandbox, await api.tags(sandbox))
    except ModalMissingError as error:
        raise EnvironmentLostError(f"environment {environment_id!r} is gone: {error}") from error
    except ModalError as error:
        raise OSError(f"Modal does not tell of a sandbox: {error}") from error
