"""All checks, one after the other; one that breaks is a finding and does not end the others."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...contracts.errors import ConfigurationError
from ...contracts.request import ModelSpec
from ..config.listing import file_values
from ..crash_report import write_crash_report
from ..home import home_folder
from .credentials import check_credentials
from .docker_engine import check_docker
from .finding import DoctorReport, Finding, failed, ok
from .installation import check_packages, check_plugins, check_python
from .machine import check_folder, check_open_files
from .model_endpoint import check_model
from .temporal_service import check_temporal

DEFAULT_RESULTS = "results"
DEFAULT_QUEUE = "agentcompass"

Found = Finding | list[Finding]


@dataclass(frozen=True)
class DoctorOptions:
    """What the flags say; the environment is that of the command."""

    results_dir: Path | None = None
    """``None``: what the configuration says."""
    model: ModelSpec | None = None
    queue: str = DEFAULT_QUEUE
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)


async def diagnose(options: DoctorOptions) -> DoctorReport:
    """Look at everything. Starts nothing, and leaves nothing behind."""
    home = home_folder(options.env)
    configured, results = _configuration()
    folder = (options.results_dir or Path(results)).absolute()
    findings: list[Finding] = [
        *_guarded("Python", check_python),
        *_guarded("packages", check_packages),
        *_guarded("plugins", check_plugins),
        configured,
        *await _guarded_async("Temporal", lambda: check_temporal(home, options.queue)),
        *_guarded("Docker", check_docker),
        *_guarded("credentials", lambda: check_credentials(options.env, Path.home())),
    ]
    model = options.model
    if model is not None:
        findings += await _guarded_async("model", lambda: check_model(model))
    findings += _guarded("results", lambda: check_folder("results", folder))
    findings += _guarded("home", lambda: check_folder("home", home))
    findings += _guarded("limits", check_open_files)
    return DoctorReport(findings=findings)


def _configuration() -> tuple[Finding, str]:
    """Whether the configuration files can be read, and where results go by them."""
    try:
        values = {item.path: item for item in file_values()}
    except ConfigurationError as error:
        return failed(
            "installation", "configuration", str(error), "mend the file that it names"
        ), DEFAULT_RESULTS
    item = values.get("runtime.results_dir")
    files = sorted(
        {found.origin.rpartition(":")[0] or found.origin for found in values.values()} - {"default"}
    )
    shown = ", ".join(files) if files else "no file, all defaults"
    return ok("installation", "configuration", shown), str(item.value) if item else DEFAULT_RESULTS


def _guarded(name: str, check: Callable[[], Found]) -> list[Finding]:
    try:
        return _listed(check())
    except Exception as error:  # a check that breaks is what somebody needs help with, too
        return [_broken(name, error)]


async def _guarded_async(name: str, check: Callable[[], Awaitable[Found]]) -> list[Finding]:
    try:
        return _listed(await check())
    except Exception as error:  # as above
        return [_broken(name, error)]


def _listed(found: Found) -> list[Finding]:
    return [found] if isinstance(found, Finding) else found


def _broken(name: str, error: Exception) -> Finding:
    file = write_crash_report(error)
    where = f"please report it, with {file}" if file else "please report it"
    return failed("doctor", name, f"the check itself failed ({type(error).__name__})", where)
