"""Where a symbolic link of a tree would lead, found without touching the file system."""

from __future__ import annotations

from collections.abc import Mapping

_MOST_HOPS = 40  # as the kernel allows

Parts = tuple[str, ...]


def refusal(link: Parts, links: Mapping[Parts, str]) -> str:
    """Why the link at ``link`` may not be kept; ``""`` when it stays inside its tree.

    Links met on the way are followed, too: a chain of harmless ones can lead out.
    """
    here: list[str] = list(link[:-1])
    pending = [link[-1]]
    hops = 0
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not here:
                return f"a symbolic link that leaves its folder, to {links[link]!r}"
            here.pop()
            continue
        text = links.get((*here, part))
        if text is None:
            here.append(part)
            continue
        hops += 1
        if hops > _MOST_HOPS:
            return f"a symbolic link in a loop, to {links[link]!r}"
        if text.startswith("/") or not text:
            return f"a symbolic link to an absolute path, {links[link]!r}"
        pending.extend(reversed(text.split("/")))
    return ""
