"""Every field of a request, given something wrong: a line that names the field and the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from agentcompass.contracts import ConfigurationError
from agentcompass.contracts.artifacts import ArtifactCommand, ArtifactLimits, ArtifactSpec
from agentcompass.contracts.errors import UsageError
from agentcompass.contracts.launch import LaunchRuntime
from agentcompass.contracts.network import NetworkPolicy
from agentcompass.contracts.request import (
    AnalysisSpec,
    AttemptsSpec,
    BenchmarkSpec,
    EnvironmentSetup,
    EnvironmentSpec,
    ExecutionSpec,
    HarnessSpec,
    ModelSpec,
    OutputSpec,
    ResourceRequirements,
    ReuseSpec,
)

LONG = 315_360_001
MODEL: dict[str, tuple[Any, str]] = {
    "base_url": ("ftp://x", "'ftp://x' is not an http(s) URL"),
    "api_key": (7, "should be text"),
    "api_protocol": (
        "soap",
        "'soap' is not one of openai-chat, openai-responses, anthropic, scripted or auto",
    ),
    "params": ([1], "should be a map of names to values"),
}
SETUP: dict[str, tuple[Any, str]] = {
    "build_context": ("./here", "must be an absolute path"),
    "compose_file": ("./here", "must be an absolute path"),
    "dockerfile": (3, "should be text"),
    "image": (1, "should be text"),
    "build_timeout_seconds": (0, "should be greater than 0"),
    "workdir": (["/a"], "should be text"),
}
RESOURCES: dict[str, tuple[Any, str]] = {
    "cpu": (0, "should be greater than 0"),
    "memory_mb": (0.5, "should be a whole number"),
    "storage_mb": (-1, "should be greater than 0"),
    "gpu": (-1, "should be greater than or equal to 0"),
}
POLICY: dict[str, tuple[Any, str]] = {
    "network_mode": ("offline", "should be 'public', 'no-network' or 'allowlist'"),
    "allowed_hosts": (["http://a.org/x"], "'http://a.org/x' is a URL; give its host name only"),
}
VARIABLES: dict[str, tuple[Any, str]] = {
    name: ({"A B": "1"}, "'A B' is not a valid environment variable name")
    for name in (
        "env_variables",
        "run_env_variables",
        "evaluation_env_variables",
        "evaluation_environment_env_variables",
    )
}
ENVIRONMENT: dict[str, tuple[Any, str]] = {
    "setup": ("debian", "should be a map of names to values"),
    "resources": (2, "should be a map of names to values"),
    "network_policy": ("closed", "should be 'public', 'no-network' or 'allowlist'"),
    "run_network_policy": (
        {"network_mode": "public", "allowed_hosts": ["a.org"]},
        "allowed_hosts goes with network_mode 'allowlist', not with 'public'",
    ),
    "verifier_network_policy": (3, "should be"),
    "evaluation_environment_mode": ("new", "should be 'reuse', 'none' or 'fresh'"),
    **VARIABLES,
}
ATTEMPTS: dict[str, tuple[Any, str]] = {
    "k": (0, "should be greater than or equal to 1"),
    "strategy": ("best", "should be 'avg' or 'pass'"),
}
ANALYSIS: dict[str, tuple[Any, str]] = {
    "analyzers": ("errors", "should be a list"),
    "params": ({"errors": 1}, "should be a map of names to values"),
    "timeout_seconds": (0, "should be greater than 0"),
}
LIMITS: dict[str, tuple[Any, str]] = {
    "max_mb": (0, "should be greater than 0"),
    "max_files": (0, "should be greater than 0"),
    "timeout_seconds": (0, "should be greater than 0"),
}
ARTIFACT: dict[str, tuple[Any, str]] = {
    "source": ("out", "source 'out' must be an absolute path inside the environment"),
    "destination": ("../out", "destination '../out' must stay below the artifact directory"),
    "exclude": (["/a"], "exclude pattern '/a' must be relative to the source"),
}
COMMAND: dict[str, tuple[Any, str]] = {
    "command": ("", "should have at least 1 character"),
    "timeout_seconds": (-1, "should be greater than 0"),
    "user": (1, "should be text"),
}
EXECUTION: dict[str, tuple[Any, str]] = {
    "task_concurrency": (0, "should be greater than or equal to 1"),
    "attempts": (3, "should be a map of names to values"),
    "enabled_recipes": ("one", "should be a list"),
    "keep_environment": ("perhaps", "should be true or false"),
    "enable_analysis": (3, "should be true or false"),
    "analysis_params": ([], "should be a map of names to values"),
    "max_retries": (-1, "should be greater than or equal to 0"),
    "retry_pattern_list": (["("], "'(' is not a regular expression"),
    "retry_min_delay_seconds": (-1, "should be greater than or equal to 0"),
    "retry_max_delay_seconds": (1, "retry_max_delay_seconds is below retry_min_delay_seconds"),
    "run_timeout_seconds": (0, "should be greater than 0"),
    "evaluation_timeout_seconds": (LONG, "should be less than or equal to 315360000"),
    "timeout_multiplier": (0, "should be greater than 0"),
    "run_timeout_multiplier": (-2, "should be greater than 0"),
    "evaluation_timeout_multiplier": ("fast", "should be a number"),
    "harness_result_timeout_seconds": (0, "should be greater than 0"),
    "artifact_collect_timeout_seconds": (0, "should be greater than 0"),
    "artifact_limits": (1, "should be a map of names to values"),
    "save_artifacts": ("some", "should be true or false"),
    "artifacts": ([{"source": "/a/x"}, {"source": "/b/x"}], "share the destination 'x'"),
    "artifact_collect": (["ls"], "should be a map of names to values"),
}
RUNTIME: dict[str, tuple[Any, str]] = {
    "reuse": ("perhaps", "should be true or false"),
    "reuse_run_id": (1, "should be text"),
    "checkpoint_resume": ("perhaps", "should be true or false"),
    "results_dir": (1, "should be text"),
    "timeout_seconds": (-1, "should be greater than or equal to 0"),
    "cleanup_grace_seconds": (-1, "should be greater than or equal to 0"),
    "heartbeat_timeout_seconds": (1, "should be greater than or equal to 2"),
    "host_lost_after_seconds": (-1, "should be greater than or equal to 0"),
    "progress": ("loud", "should be 'auto', 'plain' or 'none'"),
    "log_level": ("LOUD", "should be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
    "file_log_level": ("LOUD", "should be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
    "provider_limits": ({"box": -1}, "the limit of 'box' is negative"),
    "env_open_qps": ({"box": "often"}, "should be a number"),
    "recipe_dirs": ("here", "should be a list"),
}
TABLES: dict[str, dict[str, tuple[Any, str]]] = {
    "model": MODEL,
    "environments.box": ENVIRONMENT,
    "environments.box.setup": SETUP,
    "environments.box.resources": RESOURCES,
    "environments.box.network_policy": POLICY,
    "execution": EXECUTION,
    "execution.attempts": ATTEMPTS,
    "execution.analysis_params": ANALYSIS,
    "execution.artifact_limits": LIMITS,
    "execution.artifacts.0": ARTIFACT,
    "execution.artifact_collect.0": COMMAND,
    "runtime": RUNTIME,
}
BESIDE = {
    "execution.artifacts.0": {"source": "/app/out"},
    "execution.artifact_collect.0": {"command": "ls"},
    "environments.box.network_policy": {"network_mode": "allowlist"},
}
"""What else has to be there for a value to be looked at."""
CASES = [(where, name, *case) for where, table in TABLES.items() for name, case in table.items()]


def nested(where: str, value: Any) -> Any:
    """``value`` below the keys of ``where``; a number makes a list."""
    for key in reversed(where.split(".")):
        value = [value] if key == "0" else {key: value}
    return value


@pytest.mark.parametrize(
    ("where", "name", "value", "reason"), CASES, ids=[f"{where}.{name}" for where, name, *_ in CASES]
)
def test_a_wrong_value_is_named_with_its_file_its_place_and_the_reason(
    project: Any, where: str, name: str, value: Any, reason: str
) -> None:
    text = json.dumps(nested(where, {**BESIDE.get(where, {}), name: value}))
    file = project.write("agentcompass.yaml", text)
    with pytest.raises(ConfigurationError) as caught:
        project.resolve()
    message = str(caught.value)
    assert message.startswith(f"{file}:1: "), message
    assert where.rpartition(".0")[0] in message or where in message, message
    assert name in message
    assert reason in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"model": ""}, "MODEL"),
        ({"benchmark": ""}, "BENCHMARK"),
        ({"harness": ""}, "HARNESS"),
        ({"environment": "nowhere"}, "'nowhere'"),
        ({"run_name": 1}, "--run-name"),
        ({"run_id": ["x"]}, "--run-id"),
        ({"benchmark_params": {"limit": "all"}}, "--benchmark-params"),
        ({"harness_params": {"max_steps": "many"}}, "--harness-params"),
        ({"env_params": {"region": 1}}, "--env-params"),
    ],
)
def test_a_wrong_argument_is_named_by_its_flag(project: Any, arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        project.resolve(**arguments)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["1e999", "-1e999", "1e18"])
@pytest.mark.parametrize(
    "name",
    [
        "run_timeout_seconds",
        "timeout_multiplier",
        "retry_max_delay_seconds",
        "harness_result_timeout_seconds",
    ],
)
def test_a_time_that_no_clock_can_hold_is_refused(project: Any, name: str, value: str) -> None:
    project.write("agentcompass.yaml", f"execution: {{{name}: {value}}}")
    with pytest.raises(ConfigurationError, match=name):
        project.resolve()


@pytest.mark.parametrize(
    ("model", "where", "elsewhere"),
    [
        (ModelSpec, "model", {"id"}),
        (BenchmarkSpec, "", {"id", "params"}),
        (HarnessSpec, "", {"id", "params"}),
        (EnvironmentSpec, "environments.box", {"id", "params"}),
        (EnvironmentSetup, "environments.box.setup", set()),
        (ResourceRequirements, "environments.box.resources", set()),
        (NetworkPolicy, "environments.box.network_policy", set()),
        (ExecutionSpec, "execution", set()),
        (AttemptsSpec, "execution.attempts", set()),
        (AnalysisSpec, "execution.analysis_params", set()),
        (ArtifactLimits, "execution.artifact_limits", set()),
        (ArtifactSpec, "execution.artifacts.0", set()),
        (ArtifactCommand, "execution.artifact_collect.0", set()),
        (ReuseSpec, "runtime", set()),
        (LaunchRuntime, "runtime", set()),
        (OutputSpec, "", {"run_name", "run_id"}),
    ],
)
def test_no_field_is_without_a_negative_test(model: type[BaseModel], where: str, elsewhere: set[str]) -> None:
    """``elsewhere`` names fields that are arguments, or the components' own; they are tested above."""
    assert set(model.model_fields) <= set(TABLES.get(where, {})) | elsewhere
