"""What the entry point names."""

from agentcompass.plugins.registry import Registry


def register(registry: Registry) -> None:
    """A benchmark, two that also collect something themselves, and an agent."""
    registry.benchmark("deliveries", "artifact_evaluation.benchmark:Deliveries")
    registry.benchmark("looked_at_deliveries", "artifact_evaluation.benchmark:LookedAtDeliveries")
    registry.benchmark("replacing_deliveries", "artifact_evaluation.benchmark:ReplacingDeliveries")
    registry.harness("script", "artifact_evaluation.harness:Script")
