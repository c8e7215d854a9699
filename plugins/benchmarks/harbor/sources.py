"""Where task folders come from: a local folder, a git repository, or a registry file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, ValidationError

from ....contracts.base import Contract
from ....contracts.errors import DatasetError
from ...params import describe_validation_error
from . import git
from .folder import TaskFolder
from .params import HarborParams

_LARGEST_REGISTRY_BYTES = 64 * 1024 * 1024


class TaskSource(Contract):
    """Which folder a task is, in a form that holds on every worker."""

    git: str | None = None
    commit: str | None = None
    path: str = ""
    """Below the checkout, or below the parameter ``path``; empty for that folder itself."""


@dataclass(frozen=True)
class Candidate:
    """A folder that should hold a task; nothing of it has been read."""

    name: str
    source: TaskSource
    folder: TaskFolder


class _RegistryTask(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str
    git_url: str
    git_commit_id: str
    path: str


class _RegistryDataset(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str
    version: str = ""
    tasks: list[_RegistryTask]


def candidates(params: HarborParams) -> list[Candidate]:
    """Every task folder of the data set, by name. Blocks. Raises ``DatasetError``."""
    if params.registry is not None:
        found = list(_registered(params))
    elif params.git is not None:
        commit = git.resolved_commit(params.git, params.commit)
        top = git.checkout(params.git, commit) / params.subdirectory
        found = list(_below(top, TaskSource(git=params.git, commit=commit, path=params.subdirectory)))
    else:
        found = list(_below(Path(str(params.path)).expanduser(), TaskSource()))
    if not found:
        raise DatasetError(f"{_shown(params)} has no folder with a task.toml in it")
    return found


def locate(params: HarborParams, source: TaskSource) -> TaskFolder:
    """The folder of a task on this worker, fetched if need be. Blocks. Raises ``DatasetError``."""
    if source.git is not None and source.commit is not None:
        git.checkout(source.git, source.commit)
    folder = TaskFolder(_inside(_top(params, source), source.path))
    if not folder.has("task.toml"):
        raise DatasetError(f"{folder.path} is no task folder on this worker; every worker needs the data set")
    return folder


def folder_of(params: HarborParams, source: TaskSource) -> Path:
    """Where the folder of a task is, absolute; nothing is looked at."""
    return (_top(params, source) / source.path).absolute()


def _top(params: HarborParams, source: TaskSource) -> Path:
    if source.git is not None and source.commit is not None:
        return git.checkout_folder(source.git, source.commit)
    return Path(str(params.path)).expanduser()


def _below(top: Path, source: TaskSource) -> Iterator[Candidate]:
    """The folder itself, or its direct children, those without a task.toml left out."""
    if not top.is_dir():
        raise DatasetError(f"{top} is not a folder; give a folder of Harbor tasks")
    if TaskFolder(top).has("task.toml"):
        yield Candidate(top.resolve().name, source, TaskFolder(top))
        return
    for child in sorted(top.iterdir(), key=lambda path: path.name):
        if child.is_symlink() or not child.is_dir() or not TaskFolder(child).has("task.toml"):
            continue
        path = str(PurePosixPath(source.path) / child.name)
        yield Candidate(child.name, source.model_copy(update={"path": path}), TaskFolder(child))


def _registered(params: HarborParams) -> Iterator[Candidate]:
    dataset = _dataset(params)
    for task in dataset.tasks:
        try:
            HarborParams(git=task.git_url, commit=task.git_commit_id, subdirectory=task.path)
        except ValidationError as error:
            place = f"{params.registry}: task {task.name!r}"
            raise DatasetError(describe_validation_error(error, HarborParams, place)) from None
        commit = git.resolved_commit(task.git_url, task.git_commit_id)
        source = TaskSource(git=task.git_url, commit=commit, path=task.path)
        yield Candidate(task.name, source, TaskFolder(_inside(git.checkout(task.git_url, commit), task.path)))


def _dataset(params: HarborParams) -> _RegistryDataset:
    """The one that the parameter ``dataset`` names, or the only one."""
    datasets = _registry(Path(str(params.registry)).expanduser())
    if params.dataset is None:
        if len(datasets) == 1:
            return datasets[0]
        known = ", ".join(_label(item) for item in datasets[:20])
        raise DatasetError(f"{params.registry} has {len(datasets)} data sets; name one as 'dataset': {known}")
    name, _, version = params.dataset.partition("@")
    matching = [item for item in datasets if item.name == name and version in ("", item.version)]
    if len(matching) != 1:
        known = ", ".join(_label(item) for item in (matching or datasets)[:20])
        what = "has no" if not matching else "has several"
        raise DatasetError(f"{params.registry} {what} data set {params.dataset!r}: {known}")
    return matching[0]


def _registry(path: Path) -> list[_RegistryDataset]:
    try:
        if path.stat().st_size > _LARGEST_REGISTRY_BYTES:
            raise DatasetError(f"registry {path} is larger than {_LARGEST_REGISTRY_BYTES} bytes")
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise DatasetError(f"registry {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"registry {path} is not JSON: {error}") from None
    if not isinstance(value, list):
        raise DatasetError(f"registry {path} is not a list of data sets")
    try:
        return [_RegistryDataset.model_validate(item) for item in value]
    except ValidationError as error:
        raise DatasetError(describe_validation_error(error, _RegistryDataset, f"registry {path}")) from None


def _inside(top: Path, path: str) -> Path:
    folder = top / path
    if not folder.resolve().is_relative_to(top.resolve()):
        raise DatasetError(f"{path!r} leads out of {top}")
    return folder


def _label(dataset: _RegistryDataset) -> str:
    return f"{dataset.name}@{dataset.version}" if dataset.version else dataset.name


def _shown(params: HarborParams) -> str:
    return str(params.path or params.git or params.registry)
