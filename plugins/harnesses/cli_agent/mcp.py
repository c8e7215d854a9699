"""A task's MCP servers in the words of an agent's own configuration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum

from pydantic import JsonValue

from ....contracts.task import McpServer


class McpDialect(StrEnum):
    """How an agent's configuration names MCP servers; the placeholder ``{mcp_servers}`` stands for them."""

    CLAUDE_CODE = "claude-code"
    """A JSON object."""
    QWEN_CODE = "qwen-code"
    """A JSON object."""
    OPENCODE = "opencode"
    """A JSON object."""
    CODEX = "codex"
    """Tables of a TOML file."""

    @property
    def transports(self) -> frozenset[str]:
        """Those that the agent speaks."""
        return frozenset({"stdio", "streamable-http"} if self is McpDialect.CODEX else _ALL)


_ALL = ("stdio", "sse", "streamable-http")


def servers_text(dialect: McpDialect, servers: Sequence[McpServer]) -> str:
    """What is put into the agent's file; valid without servers, too."""
    if dialect is McpDialect.CODEX:
        return "".join(_table(server) for server in servers)
    return json.dumps({server.name: _entry(dialect, server) for server in servers})


def _entry(dialect: McpDialect, server: McpServer) -> dict[str, JsonValue]:
    local = server.transport == "stdio"
    if dialect is McpDialect.OPENCODE:
        if local:
            return {"type": "local", "command": [str(server.command), *server.args], "enabled": True}
        return {"type": "remote", "url": server.url, "enabled": True}
    entry: dict[str, JsonValue] = {"command": server.command, "args": list(server.args)}
    if dialect is McpDialect.QWEN_CODE:
        if local:
            return entry
        return {"httpUrl" if server.transport == "streamable-http" else "url": server.url}
    if local:
        return {"type": "stdio", **entry}
    return {"type": "http" if server.transport == "streamable-http" else "sse", "url": server.url}


def _table(server: McpServer) -> str:
    """Names need no quotes: they are letters, digits, dashes and underscores."""
    if server.transport == "stdio":
        args = ", ".join(map(_string, server.args))
        lines = [f"command = {_string(str(server.command))}", f"args = [{args}]"]
    else:
        lines = [f"url = {_string(str(server.url))}"]
    return "\n".join([f"[mcp_servers.{server.name}]", *lines, "", ""])


def _string(text: str) -> str:
    """A TOML string: JSON's, but for what TOML wants escaped, too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
