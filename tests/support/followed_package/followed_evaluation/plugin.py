"""What the entry point names."""

from agentcompass.plugins.registry import Registry


def register(registry: Registry) -> None:
    """The benchmark."""
    registry.benchmark("followed", "followed_evaluation.benchmark:Followed")
