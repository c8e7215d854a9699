"""What the entry point names: the ids of this package's components and where they are."""

from agentcompass.plugins.registry import Registry


def register(registry: Registry) -> None:
    """Register everything; the modules are imported when a component is used."""
    registry.benchmark("csv_totals", "acme_evaluation.benchmark:CsvTotals")
    registry.harness("acme_agent", "acme_evaluation.harness:CliAgent")
    registry.environment("ssh", "acme_evaluation.environment:Ssh")
    registry.recipe("time_for_large_tables", "acme_evaluation.recipe:TimeForLargeTables")
    registry.analyzer("answer_length", "acme_evaluation.analyzer:AnswerLength")
