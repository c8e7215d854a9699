"""Shell completion of component ids. The registry is loaded when the shell asks."""

from __future__ import annotations


def complete_benchmark(incomplete: str) -> list[str]:
    """Ids of benchmarks."""
    return _ids("benchmark", incomplete)


def complete_harness(incomplete: str) -> list[str]:
    """Ids of harnesses, and ``none``."""
    return [*_ids("harness", incomplete), *(["none"] if "none".startswith(incomplete) else [])]


def complete_environment(incomplete: str) -> list[str]:
    """Ids of environments."""
    return _ids("environment", incomplete)


def _ids(kind: str, incomplete: str) -> list[str]:
    from ..plugins.registry import ComponentKind, load_registry

    return [item for item in load_registry().ids(ComponentKind(kind)) if item.startswith(incomplete)]
