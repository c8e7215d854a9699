"""An HTML report as a browser takes it apart: elements, texts, and the data of its script."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


@dataclass
class Page:
    """What a parser sees in a page."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """Outside of scripts and styles."""
    blocks: dict[str, Any] = field(default_factory=dict)
    """The JSON of each data block by its id."""
    scripts: list[str] = field(default_factory=list)
    """Those that run."""
    styles: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All visible text."""
        return " ".join(" ".join(self.texts).split())

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the task table by column."""
        found = self.blocks["rows"]
        return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]

    def row(self, task_id: str) -> dict[str, Any]:
        """The row of a task."""
        [row] = [row for row in self.rows if row["id"] == task_id]
        return row

    def detail(self, task_id: str) -> dict[str, Any]:
        """What is embedded of a task."""
        [number] = [at for at, row in enumerate(self.rows) if row["id"] == task_id]
        found: dict[str, Any] = self.blocks[f"t{number}"]
        return found

    def names(self) -> set[str]:
        """The names of all elements."""
        return {name for name, _ in self.elements}

    def policy(self) -> str:
        """The content security policy."""
        [found] = [
            attributes["content"]
            for name, attributes in self.elements
            if name == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
        ]
        return found or ""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self._inside: tuple[str, dict[str, str | None]] | None = None
        self._raw: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.page.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside, self._raw = (tag, dict(attrs)), []

    def handle_endtag(self, tag: str) -> None:
        if self._inside is None or tag != self._inside[0]:
            return
        kind, attributes = self._inside
        text = "".join(self._raw)
        if kind == "style":
            self.page.styles.append(text)
        elif attributes.get("type") == "application/json":
            self.page.blocks[attributes["id"] or ""] = json.loads(text)
        else:
            self.page.scripts.append(text)
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self._raw.append(data)
        else:
            self.page.texts.append(data)


def read_page(path: Path) -> Page:
    """The page at ``path``, taken apart."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    return reader.page
