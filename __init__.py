"""AgentCompass on Temporal: durable evaluation of LLM agents on benchmarks."""

__version__ = "2.0.0a1"
