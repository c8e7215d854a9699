"""The stand-in of Modal for the tests: one for all, in a process of its own that ends with this one."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fake_machines import require, started

TOKEN = {"FAKE_MODAL_TOKEN_ID": "ak-fake-token-id", "FAKE_MODAL_TOKEN_SECRET": "as-fake-token-secret"}
VARIABLES = {
    "token_id_variable": "FAKE_MODAL_TOKEN_ID",
    "token_secret_variable": "FAKE_MODAL_TOKEN_SECRET",
}
"""The parameters that name them."""
_PROGRAM = Path(__file__).parents[1] / "fakes" / "modal"


@dataclass(frozen=True)
class FakeModal:
    """A running stand-in."""

    url: str
    desk: int

    def fail(self, **faults: Any) -> dict[str, Any]:
        """Have something go wrong; see ``faults.py``."""
        with socket.create_connection(("127.0.0.1", self.desk)) as connection:
            connection.sendall(json.dumps(faults).encode() + b"\n")
            with connection.makefile() as answer:
                found: dict[str, Any] = json.loads(answer.readline())
        return found

    def seen(self) -> dict[str, Any]:
        """``sandboxes``, what was ``asked`` for each, and all ``requests``."""
        return self.fail()

    def end_sandbox(self, sandbox: str) -> None:
        """End one from outside, as at the end of its lifetime."""
        self.fail(ended=sandbox)


def require_fake_modal() -> FakeModal:
    """The stand-in; where it cannot run, a test fails in CI and is skipped elsewhere."""
    found = require(_started())
    # Where the SDK looks for Modal, and what it shall not look at.
    os.environ.update(TOKEN, MODAL_SERVER_URL=found.url, MODAL_CONFIG_PATH=os.devnull)
    return found


@functools.cache
def _started() -> FakeModal | str:
    """The stand-in of this process, or why there is none."""
    if importlib.util.find_spec("modal") is None:
        return "Modal's SDK is not installed: pip install -e '.[modal]'"
    found = started("Modal", _PROGRAM)
    return found if isinstance(found, str) else FakeModal(found["url"], found["desk"])
