"""The images of sandboxes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ....contracts.errors import ServiceUnreachableError, UsageError
from ....contracts.request import EnvironmentSetup
from .api import ModalApi, ModalInvalidError
from .params import ModalParams

if TYPE_CHECKING:
    import modal


def dockerfile_of(setup: EnvironmentSetup) -> Path | None:
    """The Dockerfile that an image is built from, if it is. Raises ``UsageError`` when it is not there."""
    if setup.image or not setup.build_context:
        return None
    path = Path(setup.build_context) / (setup.dockerfile or "Dockerfile")
    if not path.is_file():
        raise UsageError(f"{path} is no file: modal needs it to build the image")
    return path


async def image_for(
    api: ModalApi, app: modal.App, setup: EnvironmentSetup, params: ModalParams
) -> modal.Image:
    """The image at Modal, built there when it is not yet; what is built is kept by Modal for the next time.

    Raises ``UsageError`` for one that cannot be built, ``TimeoutError``, ``ServiceUnreachableError``.
    """
    path = dockerfile_of(setup)
    name = str(path) if path else setup.image or params.image
    limit = setup.build_timeout_seconds or params.open_timeout_seconds
    try:
        # A build that goes on for long gives signs of life to the SDK, so its own limit is the only one.
        return await api.call(lambda: _image(path, name, setup, params).build.aio(app), seconds=limit)
    except ModalInvalidError as error:
        raise UsageError(f"Modal cannot make the image of {name}: {error}") from error
    except ServiceUnreachableError as error:
        if isinstance(error.__cause__, TimeoutError):
            raise TimeoutError(f"the image of {name} is not built after {limit:g} s") from error
        raise


def _image(path: Path | None, name: str, setup: EnvironmentSetup, params: ModalParams) -> modal.Image:
    import modal

    secret = (
        modal.Secret.from_name(params.registry_secret, environment_name=params.modal_environment)
        if params.registry_secret
        else None
    )
    if path is not None:
        image = modal.Image.from_dockerfile(path, context_dir=setup.build_context, registry_secret=secret)
    else:
        image = modal.Image.from_registry(name, secret=secret)
    # Sandboxes get a command of ours, which an entrypoint would take for its arguments.
    return image.entrypoint([])
