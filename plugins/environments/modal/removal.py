"""Removing a sandbox."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .api import ModalApi, ModalError, ModalMissingError

if TYPE_CHECKING:
    import modal


async def remove(api: ModalApi, sandbox: modal.Sandbox, seconds: float) -> None:
    """End the sandbox, and wait until it is gone. Raises ``OSError``, ``TimeoutError``."""
    try:
        async with asyncio.timeout(seconds):
            await api.call(lambda: sandbox.terminate.aio())
            await api.call(lambda: sandbox.wait.aio(raise_on_termination=False), seconds=seconds)
    except ModalMissingError:
        return
    except TimeoutError as error:
        raise TimeoutError(
            f"Modal has not removed the sandbox {sandbox.object_id} after {seconds:g} s"
        ) from error
    except ModalError as error:
        raise OSError(f"Modal does not remove a sandbox: {error}") from error
