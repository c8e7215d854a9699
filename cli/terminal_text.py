"""Text of models and programs as a terminal may show it: no character of it moves the cursor or hides."""

from __future__ import annotations


def safe_text(text: str) -> str:
    """Everything but line breaks and tabs that is no printable character is spelled out, such as ``\\x1b``."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else repr(char)[1:-1]
        for char in text.replace("\r\n", "\n")
    )


def clipped(text: str, *, chars: int, lines: int) -> str:
    """The beginning of a text; what is left out is counted."""
    rows = text.splitlines()
    shown = "\n".join(rows[:lines])
    if len(shown) > chars:
        return f"{shown[:chars]} [… {len(text) - chars} more characters]"
    return f"{shown}\n[… {len(rows) - lines} more lines]" if len(rows) > lines else shown
