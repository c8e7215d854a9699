"""What the entry point names."""

from agentcompass.plugins.registry import Registry


def register(registry: Registry) -> None:
    """One benchmark that runs its tasks itself."""
    registry.benchmark("staged", "staged_evaluation.benchmark:Staged")
