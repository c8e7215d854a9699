"""What the entry point names."""

from agentcompass.plugins.registry import Registry


def register(registry: Registry) -> None:
    """One component of each kind that an attempt needs."""
    registry.benchmark("gated", "gated_evaluation.benchmark:Gated")
    registry.harness("gated", "gated_evaluation.harness:GatedAgent")
    registry.environment("gated", "gated_evaluation.environment:GatedProcess")
