"""A command-line agent of the tests: a Python program that its description writes as a file.

It asks the model once with the prompt, waits for the file that ``AGENT_GATE`` names, and prints text,
or the events that ``codex exec`` prints, with the answer of the model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

PROGRAM = """
import json, os, time, urllib.request
prompt = open(os.environ["AGENT_PROMPT_FILE"]).read()
with open(os.environ["AGENT_STARTS"], "a") as file:
    file.write("started\\n")
body = {"model": os.environ["AGENT_MODEL"], "messages": [{"role": "user", "content": prompt}]}
headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OWN_KEY"]}
request = urllib.request.Request(
    os.environ["AGENT_BASE_URL"] + "/chat/completions", json.dumps(body).encode(), headers
)
answer = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
print(json.dumps({"type": "item.completed", "item": {"type": "agent_message", "text": answer}}), flush=True)
while not os.path.exists(os.environ["AGENT_GATE"]):
    time.sleep(0.05)
print(json.dumps({"type": "item.completed", "item": {"type": "agent_message", "text": answer + "!"}}))
print(json.dumps({"type": "turn.completed", "usage": {"input_tokens": 11, "output_tokens": 7}}))
"""


def describe(folder: Path, **changes: Any) -> Path:
    """Write a description; ``gate`` and ``starts`` lie in ``folder``. The gate is open from the start."""
    (folder / "gate").touch()
    description: dict[str, Any] = {
        "id": "own",
        "protocols": {"openai-chat": {"OWN_KEY": "{api_key}"}},
        "install": {
            "check": 'test -f "$AGENT_DIR/installed"',
            "command": f'echo x >> "{folder}/installations"; touch "$AGENT_DIR/installed"',
        },
        "variables": {"AGENT_GATE": f"{folder}/gate", "AGENT_STARTS": f"{folder}/starts"},
        "files": [
            {"path": "program.py", "content": PROGRAM},
            {"path": "config/settings.json", "content": '{"task": "{prompt}", "model": "{model}"}'},
        ],
        "run": 'exec python3 "$AGENT_RUN_DIR/program.py"',
        "trajectory": {"format": "codex-json"},
        **changes,
    }
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump(description), encoding="utf-8")
    return path
