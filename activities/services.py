"""What activities share in one worker process: settings, registry, loaded requests, secrets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, JsonValue
from temporalio.client import Client

from ..contracts.benchmark import Benchmark, HarnessFreeBenchmark
from ..contracts.environment import Environment
from ..contracts.errors import AgentCompassError, ConfigurationError, PluginError, StageFailure
from ..contracts.harness import Harness
from ..contracts.issues import IssueCode, IssuePhase
from ..contracts.recipe import Recipe
from ..contracts.request import BenchmarkSpec, EnvironmentSpec, HarnessSpec, RunRequest
from ..contracts.secrets import is_secret_reference, is_sensitive_name
from ..plugins.registry import ComponentKind, Registry, load_registry
from .classification import describe
from .encryption import unseal_secret
from .host import home_folder
from .namespace import namespace_identity
from .open_rate import OpenRate
from .places import Places
from .pool_client import KnownPools
from .redaction import REDACTOR
from .store.open_runs import OpenRuns
from .store.run_store import RunStore, open_store
from .telemetry import WorkerMetrics

ComponentT = TypeVar("ComponentT")

_CACHED_REQUESTS = 64


@dataclass(frozen=True)
class WorkerSettings:
    """Where a worker takes its work from."""

    task_queue: str
    host_queue: str
    """The queue of this machine; equal to ``task_queue`` when only this machine serves that."""

    @property
    def private(self) -> bool:
        """True when every activity of the queue runs on this machine anyway."""
        return self.task_queue == self.host_queue


@dataclass
class RequestComponents:
    """A request with the components that carry it out, made once per process."""

    request: RunRequest
    benchmark: Benchmark[Any]
    environment: Environment[Any]
    harness: Harness[Any, Any] | None
    recipes: list[Recipe[Any]] = field(default_factory=list)
    settings_digest: str = ""
    """Of ``reuse/settings.py``, once somebody asked for it."""
    unended_plans: int = 0
    """How many plans of this request were left behind in this process."""

    @property
    def harness_free(self) -> HarnessFreeBenchmark[Any]:
        """The benchmark of a request without a harness."""
        if not isinstance(self.benchmark, HarnessFreeBenchmark):
            raise ConfigurationError(f"benchmark {self.request.benchmark.id!r} needs a harness")
        return self.benchmark


def build_components(request: RunRequest, registry: Registry) -> RequestComponents:
    """Instantiate what a request names. Raises a UsageError for what is unknown or wrong."""
    harness: Harness[Any, Any] | None = None
    if not request.harness_free:
        harness_class = registry.get_harness(request.harness.id)
        harness = _made(
            harness_class, request.harness, _params(registry, ComponentKind.HARNESS, request.harness)
        )
    benchmark_class = registry.get_benchmark(request.benchmark.id)
    benchmark = _made(
        benchmark_class, request.benchmark, _params(registry, ComponentKind.BENCHMARK, request.benchmark)
    )
    environment = build_environment(request.environment, registry)
    return RequestComponents(request, benchmark, environment, harness, _recipes(request, registry))


def build_environment(spec: EnvironmentSpec, registry: Registry) -> Environment[Any]:
    """Instantiate a provider with the parameters of ``spec``."""
    return _made(registry.get_environment(spec.id), spec, _params(registry, ComponentKind.ENVIRONMENT, spec))


def _made(
    cls: Callable[[BaseModel], ComponentT],
    spec: BenchmarkSpec | HarnessSpec | EnvironmentSpec,
    params: BaseModel,
) -> ComponentT:
    """An instance of a component. Raises ``PluginError`` that names it."""
    try:
        return cls(params)
    except AgentCompassError:
        raise  # its author knows what is wrong
    except Exception as error:  # extension code may raise anything
        kind = type(spec).__name__.removesuffix("Spec").lower()
        raise PluginError(f"{kind} {spec.id!r} cannot be made: {describe(error)}") from error


def _params(
    registry: Registry, kind: ComponentKind, spec: BenchmarkSpec | HarnessSpec | EnvironmentSpec
) -> BaseModel:
    return registry.validate_params(kind, spec.id, resolve_params(spec.params))


def _recipes(request: RunRequest, registry: Registry) -> list[Recipe[Any]]:
    """The enabled recipes, by priority, then by registration."""
    enabled = request.execution.enabled_recipes
    for name in enabled:
        registry.get_recipe(name)
    ids = [name for name in registry.ids(ComponentKind.RECIPE) if not enabled or name in enabled]
    found = [registry.get_recipe(name) for name in ids]
    return [cls(cls.Params()) for cls in sorted(found, key=lambda cls: cls.priority)]


class Services:
    """Made once per worker process and given to every activity class."""

    def __init__(
        self, client: Client, settings: WorkerSettings, metrics: WorkerMetrics | None = None
    ) -> None:
        self.client = client
        self.settings = settings
        self.metrics = metrics or WorkerMetrics()
        self.environments_used: dict[str, Environment[Any]] = {}
        """Providers that this worker has opened an environment at, by id."""
        self.open_rate = OpenRate()
        self.pools = KnownPools(client)
        self.places = Places(client)
        self.open_runs = OpenRuns(home_folder())
        self._registries: dict[tuple[str, ...], Registry] = {}
        self._components: dict[str, RequestComponents] = {}
        self._namespace = ""

    async def namespace(self) -> str:
        """The identity of the Temporal namespace that this process works for; asked for once."""
        if not self._namespace:
            self._namespace = await namespace_identity(self.client)
        return self._namespace

    def registry(self, request: RunRequest) -> Registry:
        """The registry with the request's recipe directories."""
        key = tuple(request.metadata.recipe_dirs)
        if key not in self._registries:
            self._registries[key] = load_registry(key)
        return self._registries[key]

    def store(self, run_dir: str) -> RunStore:
        """The store of a run directory."""
        return open_store(Path(run_dir))

    def components(self, run_dir: str) -> RequestComponents:
        """The components of a run, made when first asked for."""
        found = self._components.get(run_dir)
        if found is None:
            request = self.store(run_dir).request()
            found = build_components(request, self.registry(request))
            while len(self._components) >= _CACHED_REQUESTS:
                self._components.pop(next(iter(self._components)))
            self._components[run_dir] = found
        return found


def resolve_secret(reference: str) -> str:
    """The value of a secret reference; from now on masked in everything written.

    Raises ``StageFailure`` (FATAL, ``secret_unavailable``) when this worker cannot resolve it.
    """
    if not reference:
        return ""
    if not is_secret_reference(reference):
        raise _unavailable("a secret was given as a value instead of a reference")
    kind, _, name = reference.partition(":")
    if kind == "sealed":
        value = _unsealed(reference)
    else:
        value = os.environ.get(name, "") if kind == "env" else _read_secret(name)
    if not value:
        raise _unavailable(f"{reference} is not set on the worker that needs it")
    REDACTOR.register(value)
    return value


def _read_secret(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _unavailable(f"file:{path} cannot be read on this worker: {type(error).__name__}") from None


def _unsealed(reference: str) -> str:
    try:
        return unseal_secret(reference)
    except ConfigurationError as error:
        raise _unavailable(f"a sealed secret: {error}") from None


def _unavailable(message: str) -> StageFailure:
    return StageFailure.fatal(IssuePhase.SETUP, IssueCode.SECRET_UNAVAILABLE, message)


def resolve_variables(variables: dict[str, str]) -> dict[str, str]:
    """Environment variables with secret references replaced by their values."""
    return {
        name: resolve_secret(value) if is_secret_reference(value) else value
        for name, value in variables.items()
    }


def resolve_params(params: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Component parameters with the secret references in sensitive fields replaced by their values.

    The result lives in a component's ``params`` in this process and is never stored.
    """
    return {name: _resolve_param(name, value) for name, value in params.items()}


def _resolve_param(name: str, value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return resolve_params(value)
    if isinstance(value, list):
        return [_resolve_param(name, item) for item in value]
    if isinstance(value, str) and is_sensitive_name(name) and is_secret_reference(value):
        return resolve_secret(value)
    return value
