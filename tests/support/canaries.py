"""Looking for secrets: in every form that they may have, in files, bytes and histories."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote

from temporalio.client import Client

from agentcompass.contracts.workflows import NAMESPACE


def forms_of(key: str) -> list[bytes]:
    """What the key looks like as it is, in an address, in JSON and in base64, at every alignment."""
    texts = [key, quote(key), quote(key, safe=""), json.dumps(key)[1:-1]]
    encoded = [base64.b64encode(b"\0" * shift + key.encode()).decode() for shift in range(3)]
    inner = [text[4:-4] for text in encoded]
    texts += [*inner, *(text.replace("+", "-").replace("/", "_") for text in inner)]
    return [text.encode() for text in dict.fromkeys(texts)]


def found_in(data: bytes, key: str) -> list[bytes]:
    return [form for form in forms_of(key) if form in data]


def holders(folder: Path, key: str) -> list[str]:
    """The files below a folder in which the key is found."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in files if found_in(path.read_bytes(), key)]


async def fetch_histories(port: int, launches: list[str]) -> dict[str, bytes]:
    """Every event of every workflow of the launches, payloads as they are."""
    client = await Client.connect(f"127.0.0.1:{port}", namespace=NAMESPACE)
    found: dict[str, bytes] = {}
    async for item in client.list_workflows():
        if any(item.id.startswith(f"launch/{launch}") for launch in launches):
            handle = client.get_workflow_handle(item.id, run_id=item.run_id)
            events = [event.SerializeToString() async for event in handle.fetch_history_events()]
            found[f"{item.id} {item.run_id}"] = b"".join(events) + item.raw_info.SerializeToString()
    return found
