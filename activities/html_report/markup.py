"""Markup that cannot be broken by its content: elements from names, attributes and escaped children."""

from __future__ import annotations

import html
from collections.abc import Iterable
from pathlib import PurePath
from urllib.parse import quote, urlsplit

from ..redaction import REDACTOR
from .texts import shorten, visible

MAX_TEXT_CHARS = 100_000
"""Of one text in the page; names and messages of any length come from outside."""

_VOID = frozenset({"meta", "input", "br"})


class Html(str):
    """Finished markup. Only this module makes it from anything that is not a literal."""

    __slots__ = ()


Child = Html | str | int | None | Iterable["Html | str | int | None"]


def element(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Html:
    """``<name …>children</name>``: every text child and attribute value is escaped.

    ``class_`` stands for ``class``, other underscores for hyphens. An attribute of ``None`` or ``False`` is
    left out, one of ``True`` has no value.
    """
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    if name in _VOID:
        return Html(opened)
    return Html(f"{opened}{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """The children one after the other, texts escaped."""
    return Html("".join(_child(child) for child in children))


def web_link(address: str | None, text: str) -> Html:
    """A link to a page on the web; plain text for anything that is not an http(s) address."""
    if not address or urlsplit(address).scheme not in ("http", "https"):
        return join(text)
    return element("a", text, href=address, rel="noreferrer noopener", target="_blank")


def file_link(path: PurePath | str, text: str) -> Html:
    """A link to a file by its path relative to the page."""
    return element("a", text, href=file_address(path))


def file_address(path: PurePath | str) -> str:
    """The address of a file relative to the page; never taken for one with a scheme."""
    return f"./{quote(str(path), errors='surrogateescape')}"


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str | int):
        return _escaped(str(child))
    return "".join(_child(item) for item in child)


def _attribute(key: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{_escaped(str(value))}"'


def _escaped(text: str) -> str:
    """Masked before it is cut: half a secret would no longer be recognised."""
    return html.escape(visible(shorten(REDACTOR.text(text), MAX_TEXT_CHARS)))
