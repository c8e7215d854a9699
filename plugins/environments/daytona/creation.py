"""Making the sandbox of an opening, or taking up the one that an earlier try has made. Everything blocks."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any

from ....contracts.environment import EnvironmentLostError, OpenRequest
from ....contracts.errors import ServiceUnreachableError, UsageError
from ....contracts.request import EnvironmentSpec
from .api import CONFLICT, FORBIDDEN, NOT_FOUND, DaytonaApi, DaytonaError
from .network import network_settings
from .params import DaytonaParams
from .records import ID_LABEL, Facts, is_kept, labels_of, sandbox_name
from .removal import remove

if TYPE_CHECKING:
    from daytona_api_client import CreateSandbox

_ON_THEIR_WAY = frozenset(
    "creating restoring starting pending_build building_snapshot pulling_snapshot unknown".split()
)
_FIRST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.05, 1.0
_QUOTA_POLL_SECONDS = 5.0
_MIB_OF_GIB = 1024
_NEVER = -1


def origin_of(spec: EnvironmentSpec, params: DaytonaParams) -> tuple[str | None, str | None]:
    """The snapshot and the image of a sandbox, of which at most one is set.

    Raises ``UsageError`` for what Daytona cannot do.
    """
    if spec.setup.build_context:
        raise UsageError(
            "daytona builds no folder with a Dockerfile; make a snapshot or an image of it and name that"
        )
    if spec.setup.compose_file:
        raise UsageError("daytona runs no services of a compose file beside a sandbox; use docker")
    image = spec.setup.image or params.image
    resources = spec.resources.model_dump(exclude_none=True)
    if resources and not image:
        raise UsageError(
            f"daytona gives a sandbox of a snapshot the resources of that snapshot; {', '.join(sorted(resources))} "
            "need an image"
        )
    return (None, image) if image else (params.snapshot, None)


class Creation:
    """One opening. ``made`` is the id of what it has made itself, complete or not."""

    def __init__(self, api: DaytonaApi, params: DaytonaParams, request: OpenRequest) -> None:
        self.made: str | None = None
        self._api = api
        self._params = params
        self._request = request
        self._stopped = threading.Event()
        self._deadline = time.monotonic() + params.open_timeout_seconds

    def stop(self) -> None:
        """Have ``run`` give up at its next step."""
        self._stopped.set()

    def run(self) -> Facts:
        """The started sandbox. Raises ``UsageError``, ``ServiceUnreachableError``, ``OSError``, ``TimeoutError``."""
        while True:
            facts = self._made_or_found()
            pause = _FIRST_POLL_SECONDS
            while facts is not None and facts.state in _ON_THEIR_WAY:
                self._pause(pause, f"is still {facts.state}")
                pause = min(pause * 1.5, _LONGEST_POLL_SECONDS)
                facts = self._facts(facts.sandbox)
            if facts is None:
                if self.made:
                    raise OSError(
                        f"the sandbox of {self._request.environment_id!r} was removed while it was made"
                    )
            elif facts.state == "started":
                return facts
            elif self.made:
                raise self._failure(facts)
            else:
                # Of an earlier try, and dead.
                remove(self._api, facts.sandbox, self._deadline - time.monotonic())
            self._pause(_LONGEST_POLL_SECONDS, "cannot be made")

    def _made_or_found(self) -> Facts | None:
        """The sandbox; ``None`` when one was in the way and is gone now."""
        name = sandbox_name(self._request.environment_id)
        wanted = self._wanted(name)
        while True:
            try:
                facts = self._api.call(
                    lambda timeout: Facts.of(
                        self._api.sandboxes.create_sandbox(wanted, _request_timeout=timeout)
                    )
                )
            except DaytonaError as error:
                if error.status == CONFLICT:
                    break
                self._wait_for_quota(error)
            else:
                self.made = facts.sandbox
                return facts
        found = self._facts(name)
        if found is not None and found.labels.get(ID_LABEL) != self._request.environment_id:
            raise UsageError(f"the name {name!r} belongs to somebody else's sandbox at Daytona; remove it")
        return found

    def _wait_for_quota(self, error: DaytonaError) -> None:
        """Wait while other sandboxes hold the quota. Raises what any other refusal means."""
        text = str(error).lower()
        if error.status not in (400, FORBIDDEN, 422):
            raise OSError(f"Daytona makes no sandbox: {error} ({error.status})") from error
        if "per sandbox" in text or not ("quota" in text or "limit exceeded" in text):
            raise UsageError(f"Daytona refuses the sandbox: {error}") from error
        try:
            self._pause(error.retry_after or _QUOTA_POLL_SECONDS, f"waits for quota: {error}")
        except TimeoutError as late:
            raise ServiceUnreachableError(f"the account has no quota left at Daytona: {error}") from late

    def _pause(self, seconds: float, doing: str) -> None:
        if time.monotonic() + seconds > self._deadline:
            raise TimeoutError(
                f"the sandbox of {self._request.environment_id!r} {doing} after "
                f"{self._params.open_timeout_seconds:g} s (open_timeout_seconds)"
            )
        if self._stopped.wait(seconds):
            raise InterruptedError("the opening was given up")

    def _facts(self, sandbox: str) -> Facts | None:
        return facts_of(self._api, sandbox)

    def _failure(self, facts: Facts) -> Exception:
        reason = facts.error or "no reason given"
        if facts.state == "build_failed":
            return UsageError(f"Daytona cannot build the image: {reason}")
        return OSError(f"the sandbox of {self._request.environment_id!r} is {facts.state}: {reason}")

    def _wanted(self, name: str) -> CreateSandbox:
        from daytona_api_client import CreateBuildInfo, CreateSandbox

        params, request = self._params, self._request
        snapshot, image = origin_of(request.spec, params)
        network = network_settings(request.network_policy)
        labels = labels_of(request)
        more: dict[str, Any] = {}
        if image:
            more["build_info"] = CreateBuildInfo(dockerfile_content=f"FROM {image}\n")
        resources = request.spec.resources
        if resources.cpu is not None:
            more["cpu"] = math.ceil(resources.cpu)
        if resources.memory_mb is not None:
            more["memory"] = math.ceil(resources.memory_mb / _MIB_OF_GIB)
        if resources.storage_mb is not None:
            more["disk"] = math.ceil(resources.storage_mb / _MIB_OF_GIB)
        if resources.gpu:
            more["gpu"] = resources.gpu
        return CreateSandbox(
            name=name,
            snapshot=snapshot,
            user=params.user,
            labels=labels,
            public=False,
            target=params.target,
            auto_stop_interval=params.auto_stop_minutes,
            auto_delete_interval=_NEVER if is_kept(labels) else 0,
            ttl_minutes=_lifetime(request, params),
            network_block_all=network.block_all or None,
            network_allow_list=network.networks,
            domain_allow_list=network.domains,
            **more,
        )


def _lifetime(request: OpenRequest, params: DaytonaParams) -> int:
    """Minutes, 0 for no end."""
    if is_kept(labels_of(request)):
        return 0
    if params.lifetime_minutes is not None:
        return params.lifetime_minutes
    expiry = request.labels.get("expiry", "")
    return minutes_until(int(expiry)) if expiry.isdigit() else 0


def minutes_until(moment: float) -> int:
    """Whole minutes, as Daytona counts times to live."""
    return max(1, math.ceil((moment - time.time()) / 60))


def facts_of(api: DaytonaApi, sandbox: str) -> Facts | None:
    """What Daytona knows of a sandbox, by its id or name; ``None`` when it is gone."""
    try:
        facts = api.call(
            lambda timeout: Facts.of(api.sandboxes.get_sandbox(sandbox, _request_timeout=timeout))
        )
    except DaytonaError as error:
        if error.status == NOT_FOUND:
            return None
        raise OSError(f"Daytona does not tell of a sandbox: {error} ({error.status})") from error
    return None if facts.state in ("destroyed", "destroying") else facts


def living(api: DaytonaApi, environment_id: str, sandbox: str) -> Facts:
    """The facts of a started sandbox. Raises ``EnvironmentLostError``, with the reason."""
    facts = facts_of(api, sandbox)
    if facts is None:
        raise EnvironmentLostError(f"environment {environment_id!r} is gone: its sandbox was removed")
    if facts.state != "started":
        reason = f": {facts.error}" if facts.error else ""
        raise EnvironmentLostError(
            f"environment {environment_id!r} is gone: its sandbox is {facts.state}{reason}"
        )
    return facts
