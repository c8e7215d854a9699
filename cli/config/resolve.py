"""All layers of configuration resolved into one request."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from ...contracts.errors import ConfigurationError
from ...contracts.launch import LaunchRuntime, LaunchSpec
from ...contracts.request import RequestMetadata, ReuseSpec, RunRequest
from ...plugins.registry import Registry, load_registry
from .arguments import DEFAULT_ENVIRONMENT, Naming, RunArguments, argument_layers
from .checks import (
    Places,
    check_component_ids,
    check_components,
    check_effective,
    check_file,
    places_of,
)
from .documents import Document, read_document
from .files import config_files
from .local_paths import absolute_paths
from .merge import Merged, merge_layers
from .places import DEFAULT, Layer, Origin, dotted
from .places import Path as KeyPath
from .problems import join_problems
from .projection import file_layer
from .schema import EffectiveConfig
from .secret_fields import SecretFields
from .secret_store import StoreLiteral

RegistryLoader = Callable[[Sequence[str]], Registry]
LayersOf = Callable[[Mapping[str, str]], Sequence[Layer]]


@dataclass(frozen=True)
class ResolvedRun:
    """One run, ready to be started; holds references to secrets and never a secret."""

    request: RunRequest
    runtime: LaunchRuntime
    origins: dict[str, Origin] = field(default_factory=dict)
    """Source of each value that is not a default, by dotted path (``execution.max_retries``)."""
    warnings: list[str] = field(default_factory=list)
    """For the user: plugins that could not be loaded, and sections that may belong to them."""

    @property
    def task_concurrency(self) -> int:
        """Attempts of the whole launch at a time; a single run has one number for both."""
        return self.request.execution.task_concurrency

    def spec(self) -> LaunchSpec:
        """A launch of this one request."""
        return LaunchSpec(
            task_concurrency=self.task_concurrency, runtime=self.runtime, requests=[self.request]
        )


def resolve_run(
    arguments: RunArguments,
    *,
    store_literal: StoreLiteral,
    naming: Naming = "flags",
    cwd: Path | None = None,
    env: Mapping[str, str] = os.environ,
    registry_loader: RegistryLoader = load_registry,
    between: LayersOf = lambda ids: [],
    elsewhere: Container[str] = (),
    request_name: str = "",
) -> ResolvedRun:
    """Merge defaults, configuration files and ``arguments`` into one validated request.

    ``store_literal`` is called last, and only for secrets that were written out, so that nothing is
    written for a request that is refused. ``results_dir`` is relative to ``cwd``, ``recipe_dirs`` to
    the file that names them. ``between`` gives further layers above the files and below the arguments,
    for the component ids of the run; arguments whose names are ``elsewhere`` only repeat what stands there.

    Raises:
        UsageError: something is wrong; the message names its place and what to change.
    """
    cwd = (cwd or Path.cwd()).absolute()
    given = argument_layers(arguments, naming, elsewhere)
    documents = _read(config_files(cwd, env, arguments.config))
    layers = _layers(arguments, documents, between)
    files = {layer.name for layer in layers} - {DEFAULT.source}
    merged = merge_layers([*layers, *given])
    places = places_of(merged)
    secrets = SecretFields(env, places.describe)
    tree = secrets.expand_tree(merged.data)
    config = check_effective(tree, places)

    recipe_dirs = _recipe_dirs(config, merged, files, cwd)
    registry = registry_loader(recipe_dirs)
    warnings = _check_registry(config, documents, registry, places)

    config = check_effective(secrets.store(tree, store_literal), places)
    config = absolute_paths(config, registry, lambda path: _folder_of(path, merged, files, cwd))
    results_dir = str(cwd / Path(config.runtime.results_dir).expanduser())
    shared = config.runtime.model_dump(include=set(LaunchRuntime.model_fields))
    runtime = LaunchRuntime.model_validate({**shared, "results_dir": results_dir, "recipe_dirs": recipe_dirs})
    origins = {dotted(path): origin for path, origin in merged.places.items() if origin is not DEFAULT}
    metadata = RequestMetadata(
        config_path=documents[-1].file if documents else "",
        recipe_dirs=recipe_dirs,
        request_name=request_name,
        explicit=sorted(path for path in origins if path.startswith("execution.")),
    )
    return ResolvedRun(_request(config, metadata), runtime, origins, warnings)


def _read(files: Sequence[Path]) -> list[Document]:
    documents = [read_document(file) for file in files]
    for document in documents:
        check_file(document)
    return documents


def _layers(arguments: RunArguments, documents: list[Document], between: LayersOf) -> list[Layer]:
    """The layers below the arguments: the defaults, then files, each named after its file."""
    ids = {
        "benchmark": arguments.benchmark,
        "harness": arguments.harness,
        "environment": arguments.env or DEFAULT_ENVIRONMENT,
    }
    base = Layer(
        DEFAULT.source,
        {"environment": {"id": DEFAULT_ENVIRONMENT}},
        {("environment", "id"): DEFAULT},
    )
    return [
        base,
        *(file_layer(document, ids) for document in documents),
        *between(ids),
    ]


def _recipe_dirs(config: EffectiveConfig, merged: Merged, files: Set[str], cwd: Path) -> list[str]:
    base = _folder_of(("runtime", "recipe_dirs"), merged, files, cwd)
    return [str(base / Path(item).expanduser()) for item in config.runtime.recipe_dirs]


def _folder_of(path: KeyPath, merged: Merged, files: Set[str], cwd: Path) -> Path:
    """What a relative path is relative to: the file that it stands in, else the working directory."""
    origin = merged.places.get(path)
    # A file may have been named relative to the working directory itself.
    return (cwd / origin.source).parent if origin is not None and origin.source in files else cwd


def _check_registry(
    config: EffectiveConfig, documents: list[Document], registry: Registry, places: Places
) -> list[str]:
    """Check all component names and parameters; returns warnings."""
    unknown = list(check_component_ids(documents, registry))
    if unknown and not registry.broken:
        raise ConfigurationError(join_problems(unknown))
    check_components(config, registry, places)
    return [*(f"not loaded: {item}" for item in registry.broken), *unknown]


def _request(config: EffectiveConfig, metadata: RequestMetadata) -> RunRequest:
    reuse = config.runtime.model_dump(include=set(ReuseSpec.model_fields))
    return RunRequest(
        benchmark=config.benchmark,
        harness=config.harness,
        environment=config.environment,
        model=config.model,
        execution=config.execution,
        runtime=ReuseSpec.model_validate(reuse),
        output=config.output,
        metadata=metadata,
    )
