"""What of a run directory must be the same whenever the same run is repeated."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

VARYING = {
    "timings",
    "timestamp",
    "started_at",
    "finished_at",
    "updated_at",
    "elapsed_seconds",
    "run_id",
    "launch_id",
    "temporal",
    "config_path",
    "seq",
    "last_seq",
}
"""Times, ids, the place of a configuration file, and the order of things independent of each other."""


def comparable(run_dir: Path) -> dict[str, Any]:
    """Everything of a run directory but times and ids."""
    return {
        "files": sorted(_names(run_dir)),
        "details": {path.name: _stable(_json(path)) for path in (run_dir / "details").iterdir()},
        "metrics": _stable(_json(run_dir / "metrics.json")),
        "params": _stable(_json(run_dir / "params.json")),
        "run_info": _stable(_json(run_dir / "run_info.json")),
        "progress": _stable(_json(run_dir / "progress.json")),
        "events": Counter(json.dumps(_stable(event), sort_keys=True) for event in events(run_dir)),
        "summary": _lines_without(run_dir / "summary.md", ("run", "started", "finished", "duration")),
    }


def status_of(run_dir: Path) -> str:
    """The state that ``run_info.json`` tells; empty while it runs."""
    return str(_json(run_dir / "run_info.json").get("status") or "")


def events(run_dir: Path) -> list[dict[str, Any]]:
    """The progress events as they are in the file; every line must be whole."""
    lines = (run_dir / "progress.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def assert_progress_is_whole(run_dir: Path) -> None:
    """No event is lost or repeated, and the snapshot follows from the events."""
    found = events(run_dir)
    assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
    assert max(Counter(event["key"] for event in found).values()) == 1
    assert _json(run_dir / "progress.json")["last_seq"] == len(found)


def _names(run_dir: Path) -> list[str]:
    """The files that the specification names; logs are called after the run id."""
    names = [path.relative_to(run_dir).as_posix() for path in run_dir.rglob("*") if path.is_file()]
    # What a killed writer had begun is removed by the first summary that comes a minute later.
    return [name for name in names if not name.startswith((".state/", "logs/")) and ".tmp-" not in name]


def _json(path: Path) -> Any:
    return json.loads(path.read_bytes())


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stable(item) for key, item in value.items() if key not in VARYING}
    if isinstance(value, list):
        return [_stable(item) for item in value]
    return value


def _lines_without(path: Path, words: tuple[str, ...]) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.strip("|-*# ").lower().startswith(words)]
