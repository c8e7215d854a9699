"""What the entry point names."""

from agentcompass.plugins.registry import Registry


def register(registry: Registry) -> None:
    """Two analyzers; both need a parameter, so neither runs without being asked for."""
    registry.analyzer("raising", "analyzing_evaluation.analyzers:Raising")
    registry.analyzer("waiting", "analyzing_evaluation.analyzers:Waiting")
