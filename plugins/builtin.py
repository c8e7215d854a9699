"""The components that come with AgentCompass, registered like anybody else's."""

from __future__ import annotations

from .registry import Registry

_HERE = "agentcompass.plugins"


def register(registry: Registry) -> None:
    """Register the built-in components; nothing is imported before it is used."""
    registry.environment("host_process", f"{_HERE}.environments.host_process:HostProcess")

    registry.benchmark("humaneval", f"{_HERE}.benchmarks.humaneval:HumanEval")
    registry.benchmark("qa", f"{_HERE}.benchmarks.qa:QuestionAnswering")
    registry.benchmark("command", f"{_HERE}.benchmarks.command:CommandBenchmark")

    registry.harness("openai_chat", f"{_HERE}.harnesses.openai_chat:OpenAIChat")
    registry.harness("oracle", f"{_HERE}.harnesses.oracle:Oracle")
    registry.harness("nop", f"{_HERE}.harnesses.nop:Nop")
