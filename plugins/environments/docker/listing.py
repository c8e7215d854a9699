"""The sandboxes of an engine, from whatever of them exists: containers, networks, volumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....contracts.environment import EnvironmentRecord
from .container import ID_LABEL, LABEL_PREFIX, MAIN, SERVICE_LABEL, handle_of, opening_labels
from .engine import Engine


def find_environments(engine: Engine, labels: Mapping[str, str]) -> list[EnvironmentRecord]:
    """One record for each sandbox that carries ``labels``, complete or not. Blocks.

    A worker may have died after it had made a network or a volume, and before any container.
    """
    wanted = {f"{LABEL_PREFIX}{name}": value for name, value in labels.items()}
    filters = {"label": [ID_LABEL, *(f"{name}={value}" for name, value in wanted.items())]}
    api = engine.api
    containers: list[dict[str, Any]] = engine.translated(api.containers, all=True, filters=filters)
    networks: list[dict[str, Any]] = engine.translated(api.networks, filters=filters)
    volumes: list[dict[str, Any]] = engine.translated(api.volumes, filters=filters)["Volumes"] or []
    found: dict[str, EnvironmentRecord] = {}
    # The sandbox itself first, then what else there is of it.
    for item in sorted(containers, key=_is_beside) + networks + volumes:
        if wanted.items() <= item["Labels"].items():
            record = _record(item)
            found.setdefault(record.handle.id, record)
    return list(found.values())


def _is_beside(container: dict[str, Any]) -> bool:
    return bool(container["Labels"].get(SERVICE_LABEL, MAIN) != MAIN)


def _record(item: dict[str, Any]) -> EnvironmentRecord:
    labels: dict[str, str] = item["Labels"]
    created = item.get("Created")
    return EnvironmentRecord(
        # Of a container its id; without one nobody can attach, only close.
        handle=handle_of(labels[ID_LABEL], item["Id"] if "Image" in item else ""),
        labels=opening_labels(labels),
        created_at=float(created) if isinstance(created, int | float) else None,
    )
