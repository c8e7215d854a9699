"""The scripted model endpoint as a process of its own, for tests that drive the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_PROGRAM = Path(__file__).with_name("model_server.py")


class ModelProcess:
    """Runs ``model_server.py`` with ``rules`` (see there) while it is entered."""

    def __init__(
        self, folder: Path, rules: Sequence[dict[str, Any]], *, api_key: str = "", host: str = "127.0.0.1"
    ) -> None:
        self._log = folder / "model_calls.jsonl"
        self._script = folder / "model_script.json"
        self._script.write_text(json.dumps({"rules": list(rules)}), encoding="utf-8")
        self._api_key = api_key
        self._host = host
        self.base_url = ""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(_PROGRAM),
                "--host",
                self._host,
                "--script",
                str(self._script),
                "--call-log",
                str(self._log),
            ]
            + (["--api-key", self._api_key] if self._api_key else []),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.base_url = self._process.stdout.readline().rpartition(" ")[2].strip()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def calls(self) -> int:
        """How many model calls have come in."""
        return len(self._log.read_bytes().splitlines()) if self._log.exists() else 0
