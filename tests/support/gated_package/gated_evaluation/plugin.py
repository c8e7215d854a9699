"""What the entry point names."""

from agentcompass.plugins.registry import Registry


def register(registry: Registry) -> None:
    """One component of each kind that an attempt needs, and a benchmark that restores files."""
    registry.benchmark("gated", "gated_evaluation.benchmark:Gated")
    registry.benchmark("gated_fresh", "gated_evaluation.benchmark:GatedFresh")
    registry.harness("gated", "gated_evaluation.harness:GatedAgent")
    registry.environment("gated", "gated_evaluation.environment:GatedProcess")
