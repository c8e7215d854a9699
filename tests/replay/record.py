"""Record the histories and fingerprints anew, on a real server. Run it when a workflow has changed:

    python tests/replay/record.py

See "Changing a workflow" in docs/temporal.md for what must come before it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from recorded_scenarios import commands_of, record_all
from workflow_server import real_server

HISTORIES = Path(__file__).parent / "histories"
FINGERPRINTS = Path(__file__).parent / "fingerprints.json"


def scrubbed(value: Any) -> Any:
    """Without the names of the process, its machine, its files and its queues.

    The SDK's metadata stay: its flags say how strictly a replay compares.
    """
    if isinstance(value, dict):
        return {
            key: "recorder" if key == "identity" else scrubbed(item)
            for key, item in value.items()
            if key not in ("workerVersion", "stickyAttributes", "stackTrace")
        }
    if isinstance(value, list):
        return [scrubbed(item) for item in value]
    if isinstance(value, str):
        return re.sub(r"queue-[0-9a-f]{8}", "queue", re.sub(r"\d+@[\w.-]+", "recorder", value))
    return value


async def main() -> None:
    """Write one file a history, and the commands of all of them into one file."""
    HISTORIES.mkdir(exist_ok=True)
    async with real_server() as environment:
        recorded = await record_all(environment.client)
    for old in HISTORIES.glob("*.json"):
        old.unlink()
    for name, history in recorded.items():
        document = {"workflowId": history.workflow_id, "events": history.to_json_dict()["events"]}
        text = json.dumps(scrubbed(document), indent=1)
        (HISTORIES / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    prints = {name: commands_of(history.events) for name, history in recorded.items()}
    FINGERPRINTS.write_text(json.dumps(prints, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
    sys.stdout.flush()
    os._exit(0)  # the SDK may abort while the interpreter shuts down
