"""What the entry point names."""

from agentcompass.plugins.registry import Registry


def register(registry: Registry) -> None:
    """Two benchmarks, one of which collects something itself, and an agent."""
    registry.benchmark("deliveries", "artifact_evaluation.benchmark:Deliveries")
    registry.benchmark("looked_at_deliveries", "artifact_evaluation.benchmark:LookedAtDeliveries")
    registry.harness("script", "artifact_evaluation.harness:Script")
