"""Which configuration files apply: the user's, the project's, and those given by ``--config``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...contracts.errors import ConfigurationError

PROJECT_FILE = "agentcompass.yaml"


def user_file(env: Mapping[str, str]) -> Path:
    """``$XDG_CONFIG_HOME/agentcompass/config.yaml``, by default below ``~/.config``."""
    base = env.get("XDG_CONFIG_HOME", "")
    # The XDG specification: a relative path is to be ignored.
    folder = Path(base) if base.startswith("/") else Path(env.get("HOME") or "~").expanduser() / ".config"
    return folder / "agentcompass" / "config.yaml"


def project_file(cwd: Path) -> Path | None:
    """The nearest ``agentcompass.yaml`` in ``cwd`` or a folder above it.

    Raises ``ConfigurationError`` when that is a folder.
    """
    folder = cwd.absolute()
    return next(
        (
            candidate / PROJECT_FILE
            for candidate in (folder, *folder.parents)
            if _is_there(candidate / PROJECT_FILE)
        ),
        None,
    )


def _is_there(file: Path) -> bool:
    if file.is_dir():
        raise ConfigurationError(f"configuration file {file} is a folder: rename it, or move it away")
    return file.is_file()


def config_files(cwd: Path, env: Mapping[str, str], given: Sequence[str]) -> list[Path]:
    """The files that apply, lowest precedence first.

    Raises:
        ConfigurationError: a file is a folder, or one named by ``--config`` does not exist.
    """
    files = [file for file in (user_file(env), project_file(cwd)) if file is not None and _is_there(file)]
    for name in given:
        file = cwd / Path(name).expanduser()
        if not file.is_file():
            what = "is no file" if file.exists() else "does not exist"
            raise ConfigurationError(f"configuration file {file} {what}")
        files.append(file)
    return files
