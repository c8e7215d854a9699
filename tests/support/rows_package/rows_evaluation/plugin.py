"""What the entry point names."""

from agentcompass.plugins.registry import Registry


def register(registry: Registry) -> None:
    """The benchmark, and the harness that follows the same script."""
    registry.benchmark("rows", "rows_evaluation.benchmark:Rows")
    registry.benchmark("rows_free", "rows_evaluation.benchmark:RowsFree")
    registry.benchmark("rows_slow", "rows_evaluation.benchmark:SlowRows")
    registry.benchmark("rows_blocking", "rows_evaluation.benchmark:BlockingRows")
    registry.benchmark("rows_free_slow", "rows_evaluation.benchmark:SlowRowsFree")
    registry.environment("switching", "rows_evaluation.environment:Switching")
    registry.environment("fixed", "rows_evaluation.environment:Fixed")
    registry.harness("rows_hanging", "rows_evaluation.harness:HangingAgent")
    registry.harness("rows_slow", "rows_evaluation.harness:SlowRowsAgent")
    registry.harness("rows", "rows_evaluation.harness:RowsAgent")
