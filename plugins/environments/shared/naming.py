"""File names for ids that come from benchmarks and may hold anything."""

from __future__ import annotations

import hashlib
import re

_SAFE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_KEPT = 40
"""Short, because sockets below ``tmp/`` must fit into about 100 bytes of path."""


def file_name(identifier: str) -> str:
    """A file name for ``identifier``: itself when it is safe, else a readable start and a digest.

    Upper case is not safe: some file systems take two ids that differ only in case for one.
    Raises ``ValueError`` for an empty id or one with a NUL character.
    """
    if not identifier or "\0" in identifier:
        raise ValueError(f"{identifier!r} is not a usable id")
    if _SAFE.fullmatch(identifier):
        return identifier
    readable = re.sub(r"[^a-z0-9._-]+", "-", identifier.lower()).strip("-.")[:_KEPT]
    digest = hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{readable}-{digest}" if readable else digest
