"""Checkouts of git repositories, kept by commit below ``$AGENTCOMPASS_HOME/datasets/git/``."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from ....contracts.errors import DatasetError

_COMMIT = re.compile(r"^[0-9a-f]{40}([0-9a-f]{24})?$")
_SECONDS = 1800.0
_OPTIONS = (
    # Nothing that a repository, or the user's own configuration for other work, brings in is executed.
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "filter.lfs.smudge="),
    *("-c", "filter.lfs.process="),
    *("-c", "filter.lfs.required=false"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "submodule.recurse=false"),
)


def resolved_commit(url: str, reference: str) -> str:
    """The commit that a branch, tag or ``HEAD`` names now. Blocks. Raises ``DatasetError``."""
    if _COMMIT.match(reference):
        return reference
    listed = _git("ls-remote", "--", url, reference, f"{reference}^{{}}", what=f"git repository {url}")
    commits = {name: commit for commit, _, name in (line.partition("\t") for line in listed.splitlines())}
    # The listing has every name that ends so. An annotated tag is there twice: the second is its commit.
    for name in (
        f"refs/tags/{reference}^{{}}",
        f"refs/tags/{reference}",
        f"refs/heads/{reference}",
        reference,
    ):
        if name in commits:
            return commits[name]
    raise DatasetError(f"git repository {url} has no branch or tag {reference!r}")


def checkout_folder(url: str, commit: str) -> Path:
    """Where a checkout is, or will be. Raises ``DatasetError`` for what is no commit."""
    if not _COMMIT.match(commit):
        raise DatasetError(f"{commit!r} is not a full commit id")
    repository = hashlib.sha256(url.encode()).hexdigest()[:16]
    return _home() / "datasets" / "git" / repository / commit


def checkout(url: str, commit: str) -> Path:
    """The folder of a checkout, made when it is not there yet. Blocks. Raises ``DatasetError``."""
    folder = checkout_folder(url, commit)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{commit[:12]}.", dir=folder.parent))
    try:
        what = f"commit {commit[:12]} of git repository {url}"
        _git("init", "--quiet", "--template=", str(temporary), what=what)
        _git("fetch", "--quiet", "--depth=1", "--no-tags", "--", url, commit, what=what, folder=temporary)
        _git("checkout", "--quiet", "--detach", "FETCH_HEAD", what=what, folder=temporary)
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another worker was faster
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # gone after the renaming
    return folder


def _git(*arguments: str, what: str, folder: Path | None = None) -> str:
    where = ("-C", str(folder)) if folder else ()
    variables = os.environ | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_ALLOW_PROTOCOL": "https:ssh:file",
        "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
    }
    try:
        ended = subprocess.run(
            ["git", *where, *_OPTIONS, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            env=variables,
            check=False,
        )
    except FileNotFoundError:
        raise DatasetError(
            "git is not installed on the worker; give the benchmark parameter path instead"
        ) from None
    except subprocess.TimeoutExpired:
        raise DatasetError(f"{what} was not fetched within {_SECONDS:g} s") from None
    if ended.returncode:
        reason = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        raise DatasetError(
            f"{what} cannot be fetched: {reason[-1][:300] if reason else 'git gave no reason'}"
        )
    return ended.stdout.decode("utf-8", "replace")


def _home() -> Path:
    return Path(os.environ.get("AGENTCOMPASS_HOME") or "~/.agentcompass").expanduser().absolute()
