"""Numbers and times as the page shows them."""

from __future__ import annotations

import math


def duration(seconds: float | None) -> str:
    """``850 ms``, ``12.3 s``, ``4 min 05 s``, ``3 h 20 min``; empty for ``None``."""
    if seconds is None:
        return ""
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {int(seconds) % 60:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def count(number: int | float) -> str:
    """With commas between thousands."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.0f}"  # an integer may exceed a float


def money(dollars: float) -> str:
    """US dollars, with enough digits for small amounts."""
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4g}"
