"""How optional parts are installed, in one wording: on PyPI the name of this package is another program's."""

from __future__ import annotations


def install_command(extra: str) -> str:
    """``pip install -e '.[NAME]' in the clone of AgentCompass``."""
    return f"pip install -e '.[{extra}]' in the clone of AgentCompass"
