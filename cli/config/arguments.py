"""The arguments of a run: what the command line's flags and the SDK's parameters come down to."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from ...contracts.errors import ConfigurationError
from .places import Layer, Path
from .projection import value_layer

Naming = Literal["flags", "parameters"]
"""How a message calls an argument: ``--max-retries`` or ``max_retries``."""

LATEST = "latest"
"""The value of ``reuse`` that means the newest run."""

JsonObject = Mapping[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class RunArguments:
    """Everything that can be said about one run; ``None`` leaves it to the configuration."""

    benchmark: str
    harness: str
    model: str
    env: str | None = None
    benchmark_params: JsonObject | None = None
    harness_params: JsonObject | None = None
    env_params: JsonObject | None = None
    model_params: JsonObject | None = None
    execution_params: JsonObject | None = None
    analysis_params: JsonObject | None = None
    model_base_url: str | None = None
    model_api_key: str | None = field(default=None, repr=False)
    """A secret, or a reference to it; never shown."""
    model_api_protocol: str | Sequence[str] | None = None
    k: int | None = None
    attempt_strategy: str | None = None
    task_concurrency: int | None = None
    provider_limits: Mapping[str, float] | None = None
    env_open_qps: Mapping[str, float] | None = None
    max_retries: int | None = None
    retry_pattern_list: Sequence[str] | None = None
    timeout_seconds: float | None = None
    cleanup_grace_seconds: float | None = None
    results_dir: str | None = None
    run_name: str | None = None
    run_id: str | None = None
    reuse: str | bool | None = None
    """``True`` or ``"latest"``: the newest run; another text: the run of that id; ``False``: none."""
    checkpoint_resume: bool | None = None
    keep_environment: bool | None = None
    enable_analysis: bool | None = None
    recipes: Sequence[str] | None = None
    recipe_dirs: Sequence[str] | None = None
    progress: str | None = None
    log_level: str | None = None
    file_log_level: str | None = None
    config: Sequence[str] = ()
    """Configuration files, lowest precedence first."""


DEFAULT_ENVIRONMENT = "host_process"


@dataclass(frozen=True)
class _Setting:
    name: str
    path: Path
    flag: str


# In this order: what sets a single value comes after what sets a whole map.
_SETTINGS = (
    _Setting("benchmark", ("benchmark", "id"), "BENCHMARK"),
    _Setting("harness", ("harness", "id"), "HARNESS"),
    _Setting("model", ("model", "id"), "MODEL"),
    _Setting("env", ("environment", "id"), "--env"),
    _Setting("benchmark_params", ("benchmark",), "--benchmark-params"),
    _Setting("harness_params", ("harness",), "--harness-params"),
    _Setting("env_params", ("environment",), "--env-params"),
    _Setting("model_params", ("model", "params"), "--model-params"),
    _Setting("execution_params", ("execution",), "--execution-params"),
    _Setting("analysis_params", ("execution", "analysis_params"), "--analysis-params"),
    _Setting("model_base_url", ("model", "base_url"), "--model-base-url"),
    _Setting("model_api_key", ("model", "api_key"), "--model-api-key"),
    _Setting("model_api_protocol", ("model", "api_protocol"), "--model-api-protocol"),
    _Setting("k", ("execution", "attempts", "k"), "--k"),
    _Setting("attempt_strategy", ("execution", "attempts", "strategy"), "--attempt-strategy"),
    _Setting("task_concurrency", ("execution", "task_concurrency"), "--task-concurrency"),
    _Setting("provider_limits", ("runtime", "provider_limits"), "--provider-limit"),
    _Setting("env_open_qps", ("runtime", "env_open_qps"), "--env-open-qps"),
    _Setting("max_retries", ("execution", "max_retries"), "--max-retries"),
    _Setting("retry_pattern_list", ("execution", "retry_pattern_list"), "--retry-pattern-list"),
    _Setting("timeout_seconds", ("runtime", "timeout_seconds"), "--timeout-seconds"),
    _Setting("cleanup_grace_seconds", ("runtime", "cleanup_grace_seconds"), "--cleanup-grace-seconds"),
    _Setting("results_dir", ("runtime", "results_dir"), "--results-dir"),
    _Setting("run_name", ("output", "run_name"), "--run-name"),
    _Setting("run_id", ("output", "run_id"), "--run-id"),
    _Setting("checkpoint_resume", ("runtime", "checkpoint_resume"), "--no-checkpoint-resume"),
    _Setting("keep_environment", ("execution", "keep_environment"), "--keep-environment"),
    _Setting("enable_analysis", ("execution", "enable_analysis"), "--enable-analysis"),
    _Setting("recipes", ("execution", "enabled_recipes"), "--recipe"),
    _Setting("recipe_dirs", ("runtime", "recipe_dirs"), "--recipe-dir"),
    _Setting("progress", ("runtime", "progress"), "--progress"),
    _Setting("log_level", ("runtime", "log_level"), "--log-level"),
    _Setting("file_log_level", ("runtime", "file_log_level"), "--file-log-level"),
)


_NEVER_EMPTY = (
    "benchmark",
    "harness",
    "model",
    "env",
    "model_base_url",
    "model_api_key",
    "model_api_protocol",
    "results_dir",
    "run_name",
    "run_id",
    "reuse",
    "recipes",
    "recipe_dirs",
    "config",
)
_EMPTY_KEY_HINT = (
    "write '${NAME}' in single quotes for a key in a variable, and leave the flag out where none is needed"
)


def argument_layers(arguments: RunArguments, naming: Naming, elsewhere: Container[str] = ()) -> list[Layer]:
    """One layer for each argument that was given, lowest precedence first; none for those ``elsewhere``.

    Raises ``ConfigurationError`` for an empty flag.
    """
    if naming == "flags":
        _refuse_empty(arguments, elsewhere)
    layers = []
    for setting in _SETTINGS:
        value = getattr(arguments, setting.name)
        if value is not None and setting.name not in elsewhere:
            source = setting.flag if naming == "flags" else setting.name
            layers.append(value_layer(source, setting.path, _json(value, source)))
    if arguments.reuse is not None:
        layers.extend(_reuse_layers(arguments.reuse, "--reuse" if naming == "flags" else "reuse"))
    return layers


def _refuse_empty(arguments: RunArguments, elsewhere: Container[str]) -> None:
    """An empty flag is nearly always a shell variable that is not set; to take it as none hides that."""
    flags = {setting.name: setting.flag for setting in _SETTINGS}
    for name in _NEVER_EMPTY:
        value = getattr(arguments, name)
        texts = value if isinstance(value, list | tuple) else [value]
        if name not in elsewhere and any(isinstance(text, str) and not text.strip() for text in texts):
            hint = "; " + _EMPTY_KEY_HINT if name == "model_api_key" else ""
            raise ConfigurationError(f"{flags.get(name) or '--' + name}: the value is empty{hint}")


def _reuse_layers(reuse: str | bool, source: str) -> list[Layer]:
    run_id = "" if isinstance(reuse, bool) or reuse == LATEST else reuse
    return [
        value_layer(source, ("runtime", "reuse"), reuse is not False),
        value_layer(source, ("runtime", "reuse_run_id"), run_id),
    ]


def _json(value: object, source: str) -> JsonValue:
    """An argument as the plain JSON that the layers are made of.

    Raises:
        ConfigurationError: it holds something else, as only an argument of the SDK can.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigurationError(f"{source}: must be a finite number")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        result: dict[str, JsonValue] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise ConfigurationError(f"{source}: the key {key!r} is not text")
            result[key] = _json(item, f"{source}: {key}")
        return result
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_json(item, source) for item in value]
    raise ConfigurationError(f"{source}: {type(value).__name__} is not a JSON value")
