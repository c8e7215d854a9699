"""The shell of every page: its policy, its style and its script."""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from pathlib import Path

from .markup import Html, element, join
from .report_file import GENERATOR

_ASSETS = Path(__file__).parent
_STYLES = ("report.css",)
_SCRIPTS = ("dom.js", "table.js", "detail.js", "main.js")


def page_start(title: str) -> Html:
    """Everything up to the content.

    The policy lets the page load nothing at all, and run and apply only what has the digest of our own
    script and style: markup that got in somehow would be dead.
    """
    style, script = _asset(_STYLES), _script()
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="generator", content=GENERATOR),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        Html(f"<style>{style}</style>"),
    )
    return join(Html('<!DOCTYPE html>\n<html lang="en">'), head, Html("<body>\n"))


def page_end() -> Html:
    """The script, which finds everything before it, and the end."""
    return Html(f"<script>{_script()}</script>\n</body></html>\n")


def _script() -> str:
    """All modules as one, in a scope of its own."""
    return f'(() => {{\n"use strict";\n{_asset(_SCRIPTS)}\n}})();'


@lru_cache
def _asset(names: tuple[str, ...]) -> str:
    return "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in names)


def _digest(text: str) -> str:
    """As the browser computes it over the text between the tags."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
