"""Python, the installed packages, and the plugins."""

from __future__ import annotations

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version

from ...contracts.errors import PluginError
from ...plugins.registry import ComponentKind, load_registry
from .finding import Finding, failed, info, ok

AREA = "installation"
MINIMUM_PYTHON = (3, 11)
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_LEFT_OUT = {"dev", "all"}


def check_python() -> Finding:
    """The interpreter, and the system it runs on."""
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {sys.executable}"
    if sys.version_info < MINIMUM_PYTHON:
        needed = ".".join(map(str, MINIMUM_PYTHON))
        return failed(AREA, "Python", found, f"install Python {needed} or newer, and AgentCompass in it")
    return ok(AREA, "Python", found)


def check_packages() -> list[Finding]:
    """AgentCompass and what it needs, by the installed metadata."""
    from ... import __version__

    present, missing, optional = [f"agentcompass {__version__}"], list[str](), list[str]()
    for name, extra in _requirements():
        if extra in _LEFT_OUT:
            continue
        found = _version(name)
        if found:
            present.append(f"{name} {found}")
        elif not extra:
            missing.append(name)
        else:
            optional.append(f"{name} (extra {extra})")
    findings = [ok(AREA, "packages", ", ".join(present))]
    if missing:
        advice = f"install them: pip install {' '.join(missing)}"
        findings = [failed(AREA, "packages", f"missing: {', '.join(missing)}", advice)]
    if optional:
        findings.append(
            info(AREA, "optional packages", f"not installed: {', '.join(dict.fromkeys(optional))}")
        )
    return findings


def check_plugins() -> list[Finding]:
    """Every plugin, and every component by importing it."""
    registry = load_registry()
    problems = list(registry.broken)
    counts: list[str] = []
    for kind in ComponentKind:
        ids = registry.ids(kind)
        for component_id in ids:
            try:
                registry.get(kind, component_id)
            except PluginError as error:
                problems.append(str(error))
        counts.append(
            f"{len(ids)} {kind.value}{'' if len(ids) == 1 else 'es' if kind.value.endswith('s') else 's'}"
        )
    advice = "install what it lacks, update it, or uninstall its package"
    findings = [failed(AREA, "plugin", problem, advice) for problem in problems]
    return [ok(AREA, "components", ", ".join(counts)), *findings]


def _requirements() -> list[tuple[str, str]]:
    """Names of the packages that ours asks for, each with its extra; empty without metadata."""
    try:
        lines = requires("agentcompass") or []
    except PackageNotFoundError:  # run from a folder that was never installed
        return []
    found: list[tuple[str, str]] = []
    for line in lines:
        name, extra = _NAME.match(line), _EXTRA.search(line)
        if name and name[0] != "agentcompass":
            found.append((name[0], extra[1] if extra else ""))
    return found


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
