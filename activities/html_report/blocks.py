"""The building blocks of the pages: a part with a title, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .markup import Child, Html, element
from .texts import shorten

MAX_CELL_CHARS = 1000


def section(title: str, *children: Child, name: str) -> Html:
    """A part of the page that the navigation leads to."""
    return element("section", element("h2", title), *children, id=name, class_="card")


def table(head: Sequence[str], rows: Iterable[Sequence[Child]], numeric_from: int = 99) -> Html:
    """A table that scrolls by itself where it is too wide."""
    cells = [
        element("th", name, class_="num" if at >= numeric_from else None) for at, name in enumerate(head)
    ]
    body = [
        element(
            "tr",
            [
                element("td", _cell(cell), class_="num" if at >= numeric_from else None)
                for at, cell in enumerate(row)
            ],
        )
        for row in rows
    ]
    whole = element("table", element("thead", element("tr", cells)), element("tbody", body))
    return element("div", whole, class_="scroll")


def _cell(cell: Child) -> Child:
    return shorten(cell, MAX_CELL_CHARS) if isinstance(cell, str) and not isinstance(cell, Html) else cell
