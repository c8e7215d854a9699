"""Long texts cut to what a model should see: head and tail, by bytes."""

from __future__ import annotations


def head_and_tail(data: bytes, limit: int) -> str:
    """``data`` as text of about ``limit`` bytes at most, the middle left out."""
    if len(data) <= limit:
        return shown(data)
    half = limit // 2
    return joined(data[:half], data[len(data) - half :], len(data))


def joined(head: bytes, tail: bytes, total: int) -> str:
    """The text of a stream of which only ``head`` and ``tail`` are here."""
    missing = total - len(head) - len(tail)
    if missing <= 0:
        return shown(head + tail)
    return f"{shown(head)}\n[… {missing} bytes left out …]\n{shown(tail)}"


def shown(data: bytes) -> str:
    """Decoded; what is no text, and NUL, which not every endpoint takes, is replaced."""
    return data.decode("utf-8", errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
