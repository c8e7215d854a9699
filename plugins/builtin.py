"""The components that come with AgentCompass, registered like anybody else's."""

from __future__ import annotations

from .registry import Registry

_HERE = "agentcompass.plugins"


def register(registry: Registry) -> None:
    """Register the built-in components; nothing is imported before it is used."""
    registry.environment("daytona", f"{_HERE}.environments.daytona:Daytona")
    registry.environment("docker", f"{_HERE}.environments.docker:Docker")
    registry.environment("host_process", f"{_HERE}.environments.host_process:HostProcess")
    registry.environment("modal", f"{_HERE}.environments.modal:Modal")

    registry.benchmark("humaneval", f"{_HERE}.benchmarks.humaneval:HumanEval")
    registry.benchmark("qa", f"{_HERE}.benchmarks.qa:QuestionAnswering")
    registry.benchmark("command", f"{_HERE}.benchmarks.command:CommandBenchmark")
    registry.benchmark("terminal_tasks", f"{_HERE}.benchmarks.terminal_tasks:TerminalTasks")
    registry.benchmark("harbor", f"{_HERE}.benchmarks.harbor:Harbor")
    registry.benchmark("judged_qa", f"{_HERE}.benchmarks.judged_qa:JudgedQuestions")
    registry.benchmark("bfcl", f"{_HERE}.benchmarks.bfcl:Bfcl")
    registry.benchmark("swebench_verified", f"{_HERE}.benchmarks.swebench_verified:SweBenchVerified")
    registry.benchmark("pinchbench", f"{_HERE}.benchmarks.pinchbench:PinchBench")

    registry.harness("openai_chat", f"{_HERE}.harnesses.openai_chat:OpenAIChat")
    registry.harness("terminal_agent", f"{_HERE}.harnesses.terminal_agent:TerminalAgent")
    registry.harness("cli_agent", f"{_HERE}.harnesses.cli_agent:CliAgent")
    registry.harness("oracle", f"{_HERE}.harnesses.oracle:Oracle")
    registry.harness("nop", f"{_HERE}.harnesses.nop:Nop")

    registry.recipe("harbor_daytona", f"{_HERE}.recipes.harbor_daytona:HarborDaytona")
    registry.recipe("harbor_docker", f"{_HERE}.recipes.harbor_docker:HarborDocker")
    registry.recipe("harbor_modal", f"{_HERE}.recipes.harbor_modal:HarborModal")
    registry.recipe("judged_qa_daytona", f"{_HERE}.recipes.judged_qa:JudgedQaDaytona")
    registry.recipe("judged_qa_docker", f"{_HERE}.recipes.judged_qa:JudgedQaDocker")
    registry.recipe("judged_qa_modal", f"{_HERE}.recipes.judged_qa:JudgedQaModal")
    registry.recipe("pinchbench_daytona", f"{_HERE}.recipes.pinchbench:PinchBenchDaytona")
    registry.recipe("pinchbench_docker", f"{_HERE}.recipes.pinchbench:PinchBenchDocker")
    registry.recipe("pinchbench_modal", f"{_HERE}.recipes.pinchbench:PinchBenchModal")
    registry.recipe("swebench_verified_daytona", f"{_HERE}.recipes.swebench_verified:SweBenchDaytona")
    registry.recipe("swebench_verified_docker", f"{_HERE}.recipes.swebench_verified:SweBenchDocker")
    registry.recipe("swebench_verified_modal", f"{_HERE}.recipes.swebench_verified:SweBenchModal")

    registry.analyzer("exceptions", f"{_HERE}.analyzers.exceptions:Exceptions")
    registry.analyzer("empty_output", f"{_HERE}.analyzers.empty_output:EmptyOutput")
    registry.analyzer("truncation", f"{_HERE}.analyzers.truncation:Truncation")
    registry.analyzer("tool_repetition", f"{_HERE}.analyzers.tool_repetition:ToolRepetition")
    registry.analyzer("latency", f"{_HERE}.analyzers.latency:Latency")
    registry.analyzer("usage", f"{_HERE}.analyzers.usage:TokenUsage")
