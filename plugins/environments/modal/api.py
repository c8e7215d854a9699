"""Calls to Modal with its SDK. What they raise is made ours here."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from ....contracts.errors import ServiceUnreachableError, UsageError
from ....contracts.extras import install_command
from .params import ModalParams

if TYPE_CHECKING:
    import modal

T = TypeVar("T")

_USUAL_VARIABLES = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 10.0


class ModalError(Exception):
    """Modal refused a call."""


class ModalMissingError(ModalError):
    """What the call was about is not there, or not there any more."""


class ModalExistsError(ModalError):
    """The name is taken."""


class ModalExhaustedError(ModalError):
    """A quota or a rate limit is reached, or there is no capacity."""


class ModalInvalidError(ModalError):
    """Modal does not do what was asked for."""


class ModalApi:
    """One account, app and environment at Modal. May be used from any thread and event loop."""

    def __init__(self, client: modal.Client, params: ModalParams) -> None:
        self.client = client
        self.timeout_seconds = params.request_timeout_seconds
        self._app_name = params.app_name
        self._environment = params.modal_environment

    async def app(self, *, make: bool = False) -> modal.App:
        """The app of our sandboxes. Raises ``ModalMissingError`` unless it is to be made."""
        import modal

        return await self.call(
            lambda: modal.App.lookup.aio(
                self._app_name,
                client=self.client,
                environment_name=self._environment,
                create_if_missing=make,
            )
        )

    async def named(self, name: str) -> modal.Sandbox:
        """The running sandbox of that name. Raises ``ModalMissingError``."""
        import modal

        return await self.call(
            lambda: modal.Sandbox.from_name.aio(
                self._app_name, name, environment_name=self._environment, client=self.client
            )
        )

    async def identified(self, sandbox_id: str) -> modal.Sandbox:
        """The sandbox of that id, which may have ended. Raises ``ModalMissingError``."""
        import modal

        return await self.call(lambda: modal.Sandbox.from_id.aio(sandbox_id, client=self.client))

    async def tags(self, sandbox: modal.Sandbox) -> dict[str, str]:
        """The tags of a sandbox. Raises ``ModalMissingError``."""
        return await self.call(lambda: sandbox.get_tags.aio())

    async def call(
        self, work: Callable[[], Awaitable[T]], *, seconds: float | None = None, wait_for_quota: bool = True
    ) -> T:
        """Do ``work``, which may take so long; again while Modal is too busy or away.

        ``work`` must be such that it may be repeated. Raises ``ModalError``, ``UsageError`` for a token that is
        refused, ``ServiceUnreachableError``. Without ``wait_for_quota``, ``ModalExhaustedError`` is raised at once.
        """
        limit = seconds or self.timeout_seconds
        patience = time.monotonic() + self.timeout_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                # The SDK repeats calls itself, and waits as long as Modal tells it to.
                async with asyncio.timeout(limit):
                    return await work()
            except TimeoutError as error:
                raise _late(limit) from error
            except Exception as error:  # of three libraries; what is not theirs is raised again
                meant = translated(error)
                if meant is None:
                    raise
                busy = isinstance(meant, ModalExhaustedError)
                again = isinstance(meant, ServiceUnreachableError) or (busy and wait_for_quota)
                if not again:
                    raise meant from error
                if time.monotonic() + pause > patience:
                    raise (
                        ServiceUnreachableError(f"Modal is too busy: {meant}") if busy else meant
                    ) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


_opened: dict[tuple[str, ...], modal.Client] = {}
_opening: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def api_for(params: ModalParams) -> ModalApi:
    """The account that ``params`` name, with the one client of this process for it.

    Raises ``UsageError`` without the SDK or a token, ``ServiceUnreachableError``.
    """
    try:
        from modal.config import config
    except ImportError as error:
        raise UsageError(f"the environment modal needs Modal's SDK: {install_command('modal')}") from error
    token = _token(params)
    # Who it is by is told by the token; where, by a variable of the SDK.
    key = (str(config["server_url"]), *token)
    # One at a time: many attempts begin together.
    async with _opening.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        client = _opened.get(key)
        if client is None or client.is_closed():
            client = _opened[key] = await _client(token, params.request_timeout_seconds)
    return ModalApi(client, params)


async def _client(token: tuple[str, str], seconds: float) -> modal.Client:
    import modal

    try:
        async with asyncio.timeout(seconds):
            return await modal.Client.from_credentials.aio(*token)
    except TimeoutError as error:
        raise _late(seconds) from error
    except Exception as error:  # as in ``call``
        meant = translated(error)
        if isinstance(meant, ModalError):
            raise UsageError(f"Modal's SDK cannot be used as it is configured: {meant}") from error
        raise meant or error from error


def _token(params: ModalParams) -> tuple[str, str]:
    """From the variables; when Modal's own are both unset, from the file that ``modal token new`` writes."""
    from modal.config import config

    names = params.token_id_variable, params.token_secret_variable
    found = [os.environ.get(name, "").strip() for name in names]
    if not any(found) and names == _USUAL_VARIABLES:
        found = [str(config.get(key, use_env=False) or "") for key in ("token_id", "token_secret")]
    missing = [name for name, value in zip(names, found, strict=True) if not value]
    if missing:
        raise UsageError(f"the worker needs the token for Modal in the variables {' and '.join(missing)}")
    return found[0], found[1]


def translated(error: Exception) -> Exception | None:
    """What an exception of the SDK or of the libraries below it means, ``None`` for any other one."""
    from grpclib.exceptions import StreamTerminatedError
    from modal import exception

    message = _message_of(error)
    match error:
        case exception.AuthError() | exception.PermissionDeniedError():
            return UsageError(f"Modal refuses the token: {message}")
        case exception.NotFoundError() | exception.SandboxTerminatedError():
            return ModalMissingError(message)
        case exception.SandboxTimeoutError():
            return ModalMissingError(f"it has reached the end of its lifetime: {message}")
        case exception.AlreadyExistsError():
            return ModalExistsError(message)
        case exception.ResourceExhaustedError():
            return ModalExhaustedError(message)
        case exception.ConflictError():
            # What it was about has another state by now; for a sandbox, that it has ended.
            return ModalMissingError(message)
        case exception.InvalidError() | exception.UnimplementedError() | exception.ImageBuildError():
            return ModalInvalidError(message)
        case (
            exception.ConnectionError()
            | exception.ServiceError()
            | exception.InternalError()
            | exception.TimeoutError()
            | StreamTerminatedError()
            | ConnectionError()
        ):
            return ServiceUnreachableError(f"{_where()} does not answer: {type(error).__name__}: {message}")
        case exception.Error():
            return ModalError(message)
    return None


def _late(seconds: float) -> ServiceUnreachableError:
    return ServiceUnreachableError(f"{_where()} does not answer within {seconds:g} s")


def _where() -> str:
    from modal.config import config

    return f"Modal at {str(config['server_url']).split(',')[0]}"


def _message_of(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[:1000] if lines else "no reason given"
