"""What the engine knows of an image."""

from __future__ import annotations

from typing import Any

from .container import ImageFacts
from .engine import NOT_FOUND, Engine, EngineError


def find_image(engine: Engine, name: str) -> ImageFacts | None:
    """What the engine has under a name, ``None`` when it has nothing. Blocks."""
    try:
        found: dict[str, Any] = engine.translated(engine.api.inspect_image, name)
    except EngineError as error:
        if error.status == NOT_FOUND:
            return None
        raise
    config = found.get("Config") or {}
    return ImageFacts(
        name=name,
        id=found["Id"],
        user=config.get("User") or "",
        workdir=config.get("WorkingDir") or "",
        architecture=found.get("Architecture") or "",
    )
