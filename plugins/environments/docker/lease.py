"""The time to live of a container: its first process ends it, unless a worker renews it in time.

The first process counts seconds of the kernel's own clock, so clocks of machines may differ. What renews
it is a note inside, of root: an agent without root cannot write it. One with root can, and so keep its
container until a worker comes by; see ``docs/docker.md``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from datetime import datetime

from ....contracts.environment import OpenRequest
from ....contracts.environment_labels import KEPT
from ..shared.packing import Owner
from . import scripts
from .archive import ContainerFiles
from .engine import CONFLICT, NOT_FOUND, EngineError
from .files import write_file
from .params import DockerParams

NOTE = f"{scripts.HOME}/lease"
"""Inside: seconds to live from when it was written, and when they end. Its time stamp is that end, too."""
ENDED_STATUS = 72
"""The exit status of a first process that nobody has renewed."""
_KEEP = "keep"


def initial_seconds(request: OpenRequest, params: DockerParams) -> int:
    """How long the container of ``request`` lives without a renewal; 0 for ever."""
    if request.labels.get(_KEEP) == KEPT:
        return 0
    if params.time_to_live_seconds is not None:
        return params.time_to_live_seconds
    expiry = request.labels.get("expiry", "")
    return seconds_until(int(expiry)) if expiry.isdigit() else 0


def seconds_until(moment: float) -> int:
    """Whole seconds, one at least."""
    return max(1, round(moment - time.time()))


def renew(files: ContainerFiles, labels: Mapping[str, str], expires_at: float) -> None:
    """Move the end of a container to ``expires_at``, Unix seconds; one that is kept has none. Blocks."""
    if labels.get(_KEEP) == KEPT:
        return
    end = int(expires_at)
    write_file(files, NOTE, f"{seconds_until(end)} {end}\n".encode("ascii"), 0o644, Owner(modified=end))


def expires_at(files: ContainerFiles) -> float | None:
    """The end as it was renewed last, ``None`` without a renewal. Blocks for some 3 ms."""
    try:
        found = files.status(NOTE)
    except EngineError as error:
        if error.status in (NOT_FOUND, CONFLICT):
            return None  # it is being removed
        raise
    if found is None:
        return None
    # The agent's root may have spoiled it; then the label tells.
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(found.modified).timestamp()
    return None
