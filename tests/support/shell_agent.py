"""A command-line agent for containers that have a shell and the small tools of busybox, and no Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ASK = r"""
body=$(cat "$AGENT_RUN_DIR/body.json") target=${AGENT_BASE_URL#http://}
authority=${target%%/*}
ask() {  # prints the answer of the model; fails without one
    printf '%s\r\n' "POST /${target#*/}/chat/completions HTTP/1.1" "Host: $authority" "Authorization: Bearer $OWN_KEY" \
        "Content-Type: application/json" "Content-Length: ${#body}" "Connection: close" "" > request
    printf '%s' "$body" >> request
    nc -w 60 "${authority%:*}" "${authority#*:}" < request > answer 2>/dev/null
    sed -n 's/.*"content": *"\([^"]*\)".*/\1/p' answer | grep .
}
"""


def describe(folder: Path, run: str) -> Path:
    """Write a description; ``run`` is shell that may call ``ask``."""
    description: dict[str, Any] = {
        "id": "shell",
        "protocols": {"openai-chat": {"OWN_KEY": "{api_key}"}},
        "install": {"check": "true", "command": "true"},
        "files": [
            {
                "path": "body.json",
                "content": '{"model": "{model}", "messages": [{"role": "user", "content": "?"}]}',
            }
        ],
        "run": ASK + run,
        "trajectory": {"format": "text"},
    }
    path = folder / "agent.yaml"
    path.write_text(yaml.safe_dump(description), encoding="utf-8")
    return path
