"""Flags of the command line: each reaches its field, and none swallows another."""

from __future__ import annotations

import dataclasses

import pytest
import typer

from agentcompass.cli.commands.run_flags import RunFlags
from agentcompass.cli.flags import takes_flags
from agentcompass.cli.help import ReuseCommand
from agentcompass.contracts import ConfigurationError


def parse(*words: str) -> RunFlags:
    """The flags of a command line, parsed as ``agentcompass run`` does."""
    seen: list[RunFlags] = []
    app = typer.Typer(rich_markup_mode=None)

    @app.command(cls=ReuseCommand)
    @takes_flags(RunFlags)
    def run(flags: RunFlags) -> int:
        seen.append(flags)
        return 0

    app(list(words), standalone_mode=False)
    return seen[0]


def field(resolved, path):
    value = resolved
    for name in path.split("."):
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    return value


@pytest.mark.parametrize(
    ("words", "path", "expected"),
    [
        (["--env", "host_process"], "request.environment.id", "host_process"),
        (["--benchmark-params", '{"limit": 2}'], "request.benchmark.params", {"limit": 2}),
        (["--harness-params", '{"max_steps": 2}'], "request.harness.params", {"max_steps": 2}),
        (["--env", "box", "--env-params", '{"region": "r"}'], "request.environment.params", {"region": "r"}),
        (["--env-params", '{"resources": {"cpu": 2}}'], "request.environment.resources.cpu", 2),
        (["--env-params", '{"setup": {"image": "i"}}'], "request.environment.setup.image", "i"),
        (["--model-params", '{"temperature": 0}'], "request.model.params", {"temperature": 0}),
        (["--model-base-url", "http://h:1/v1"], "request.model.base_url", "http://h:1/v1"),
        (["--model-api-key", "env:KEY"], "request.model.api_key", "env:KEY"),
        (["--model-api-protocol", "anthropic"], "request.model.api_protocol", "anthropic"),
        (["--model-api-protocol", '["anthropic"]'], "request.model.api_protocol", ["anthropic"]),
        (["--model-api-protocol", "auto"], "request.model.api_protocol", ""),
        (["--k", "3"], "request.execution.attempts.k", 3),
        (["--attempt-strategy", "pass"], "request.execution.attempts.strategy", "pass"),
        (["--task-concurrency", "4"], "request.execution.task_concurrency", 4),
        (["--provider-limit", "box=4", "--provider-limit", "host_process=0"], "runtime.provider_limits",
         {"box": 4, "host_process": 0}),
        (["--env-open-qps", "box=0.5"], "runtime.env_open_qps", {"box": 0.5}),
        (["--max-retries", "2"], "request.execution.max_retries", 2),
        (["--retry-pattern-list", '["timed out"]'], "request.execution.retry_pattern_list", ["timed out"]),
        (["--execution-params", '{"run_timeout_seconds": 9}'], "request.execution.run_timeout_seconds", 9),
        (["--timeout-seconds", "60"], "runtime.timeout_seconds", 60),
        (["--cleanup-grace-seconds", "5"], "runtime.cleanup_grace_seconds", 5),
        (["--results-dir", "/out"], "runtime.results_dir", "/out"),
        (["--run-name", "n"], "request.output.run_name", "n"),
        (["--run-id", "i"], "request.output.run_id", "i"),
        (["--reuse"], "request.runtime.reuse", True),
        (["--reuse=old"], "request.runtime.reuse_run_id", "old"),
        (["--no-checkpoint-resume"], "request.runtime.checkpoint_resume", False),
        (["--keep-environment"], "request.execution.keep_environment", True),
        (["--no-enable-analysis"], "request.execution.enable_analysis", False),
        (["--enable-analysis"], "request.execution.enable_analysis", True),
        (["--analysis-params", '{"analyzers": ["errors"]}'], "request.execution.analysis_params.analyzers", ["errors"]),
        (["--recipe", "bigger"], "request.execution.enabled_recipes", ["bigger"]),
        (["--recipe-dir", "/r1", "--recipe-dir", "/r2"], "runtime.recipe_dirs", ["/r1", "/r2"]),
        (["--progress", "none"], "runtime.progress", "none"),
        (["--log-level", "debug"], "runtime.log_level", "DEBUG"),
        (["--file-log-level", "ERROR"], "runtime.file_log_level", "ERROR"),
    ],
)  # fmt: skip
def test_flag_reaches_its_field(project, words, path, expected):
    arguments = parse("quiz", "chat", "m", *words).arguments()
    given = {item.name: getattr(arguments, item.name) for item in dataclasses.fields(arguments)}
    resolved = project.resolve(environment=given.pop("env"), **given)
    assert field(resolved, path) == expected


def test_config_flag_is_repeatable(project):
    first = project.write("a.yaml", "execution: {max_retries: 1}\n")
    second = project.write("b.yaml", "execution: {max_retries: 2}\n")
    arguments = parse("quiz", "chat", "m", "--config", str(first), "--config", str(second)).arguments()
    assert arguments.config == (str(first), str(second))


def test_flags_left_out_leave_everything_to_the_configuration(project):
    arguments = parse("quiz", "chat", "m").arguments()
    given = {item.name: getattr(arguments, item.name) for item in dataclasses.fields(arguments)}
    assert {name for name, value in given.items() if value not in (None, ())} == {
        "benchmark",
        "harness",
        "model",
    }


@pytest.mark.parametrize(
    ("words", "reuse"),
    [
        (["--reuse", "quiz", "chat", "m"], "latest"),
        (["quiz", "--reuse", "chat", "m"], "latest"),
        (["quiz", "chat", "--reuse", "m"], "latest"),
        (["quiz", "chat", "m", "--reuse"], "latest"),
        (["quiz", "chat", "m", "--reuse", "--k", "2"], "latest"),
        (["quiz", "chat", "m", "--reuse", "20260101_000000"], "20260101_000000"),
        (["--reuse", "old", "quiz", "chat", "m"], "old"),
        (["--reuse=old", "quiz", "chat", "m"], "old"),
        (["--reuse", "--", "quiz", "chat", "m"], "latest"),
    ],
)
def test_reuse_takes_a_run_id_and_never_a_positional_argument(words, reuse):
    flags = parse(*words)
    assert (flags.benchmark, flags.harness, flags.model, flags.reuse) == ("quiz", "chat", "m", reuse)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--benchmark-params", '{"a": }'], "--benchmark-params:1:7: Expecting value"),
        (["--harness-params", "[1]"], "--harness-params: must be a JSON object"),
        (["--retry-pattern-list", '{"a": 1}'], "--retry-pattern-list: must be a JSON array of texts"),
        (["--provider-limit", "box"], "--provider-limit: 'box' is not PROVIDER=WHOLE NUMBER"),
        (["--provider-limit", "box=1.5"], "--provider-limit: 'box=1.5' is not PROVIDER=WHOLE NUMBER"),
        (
            ["--provider-limit", "box=1", "--provider-limit", "box=2"],
            "--provider-limit: 'box=2' is given twice",
        ),
        (["--env-open-qps", "=2"], "--env-open-qps: '=2' has no name before '='"),
    ],
)
def test_malformed_flag_value_is_refused_by_name(words, message):
    with pytest.raises(ConfigurationError) as caught:
        parse("quiz", "chat", "m", *words).arguments()
    assert str(caught.value).startswith(message)


def test_infinite_time_is_refused(project):
    with pytest.raises(ConfigurationError, match="--timeout-seconds: must be a finite number"):
        project.resolve(timeout_seconds=float("inf"))
