"""Custom search attributes that every workflow carries, so that the Temporal UI can be filtered."""

from __future__ import annotations

LAUNCH = "AgentCompassLaunch"
RUN_ID = "AgentCompassRunId"
BENCHMARK = "AgentCompassBenchmark"
HARNESS = "AgentCompassHarness"
MODEL = "AgentCompassModel"
ENVIRONMENT = "AgentCompassEnvironment"
TASK = "AgentCompassTask"
OUTCOME = "AgentCompassOutcome"

SEARCH_ATTRIBUTES: dict[str, str] = dict.fromkeys(
    (LAUNCH, RUN_ID, BENCHMARK, HARNESS, MODEL, ENVIRONMENT, TASK, OUTCOME), "Keyword"
)
"""Name to Temporal type, as registered by the embedded server and by ``agentcompass setup``."""
