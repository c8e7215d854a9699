"""What there is of sandboxes with services, and which of them are over. No input or output."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import dataclass
from typing import Any

ID_LABEL = "agentcompass.environment"
SERVICE_LABEL = "agentcompass.service"
SECONDS_LABEL = "agentcompass.seconds"
MAIN = "main"
MISSING_ROUNDS = 2
"""How often the sandbox itself must be missing before its services go: whoever closes it has a moment to do so."""


@dataclass(frozen=True)
class Belonging:
    """A container, network or volume of a sandbox with services."""

    path: str
    """What to ``DELETE``."""
    environment: str
    seconds: int
    """How long it lives without a sandbox; 0 for ever."""
    created: float | None
    service: str | None = None
    running: bool = False


def container(item: dict[str, Any]) -> Belonging:
    """From the engine's list."""
    labels = item["Labels"]
    return Belonging(
        f"/containers/{item['Id']}?force=1&v=1",
        labels[ID_LABEL],
        _seconds(labels),
        float(item["Created"]),
        labels.get(SERVICE_LABEL),
        item["State"] == "running",
    )


def network(item: dict[str, Any]) -> Belonging:
    """From the engine's list."""
    labels = item["Labels"]
    return Belonging(f"/networks/{item['Id']}", labels[ID_LABEL], _seconds(labels), _moment(item["Created"]))


def volume(item: dict[str, Any]) -> Belonging:
    """From the engine's list."""
    labels = item["Labels"]
    created = _moment(item.get("CreatedAt"))
    return Belonging(f"/volumes/{item['Name']}", labels[ID_LABEL], _seconds(labels), created)


class Memory:
    """What earlier rounds have seen."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._missing: Counter[str] = Counter()

    def over(self, found: list[Belonging], now: float) -> list[Belonging]:
        """What is to be removed: containers, networks, volumes, in the order of ``found``.

        The sandbox itself ends by its own time to live. One that was seen and is gone takes its services along;
        one that never came has the time to live of what was made for it.
        """
        environments: dict[str, list[Belonging]] = {}
        for item in found:
            environments.setdefault(item.environment, []).append(item)
        self._seen &= set(environments)
        gone = {name for name, items in environments.items() if self._is_over(name, items, now)}
        return [item for item in found if item.environment in gone]

    def _is_over(self, name: str, items: list[Belonging], now: float) -> bool:
        seconds = max(item.seconds for item in items)
        if min(item.seconds for item in items) == 0:
            return False  # it is to be kept, or was made by a version that says nothing
        main = next((item for item in items if item.service == MAIN), None)
        if main is not None and main.running:
            self._seen.add(name)
        if main is not None:
            self._missing.pop(name, None)
        elif name in self._seen:
            self._missing[name] += 1
            return self._missing[name] >= MISSING_ROUNDS
        began = [item.created for item in items if item.created is not None]
        never_began = main is None or not main.running
        return never_began and bool(began) and max(began) + seconds < now


def _seconds(labels: dict[str, str]) -> int:
    text = labels.get(SECONDS_LABEL, "")
    return int(text) if text.isdigit() else 0


def _moment(text: str | None) -> float | None:
    try:
        return datetime.datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return None
