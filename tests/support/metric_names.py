"""Names of metrics in the expressions of dashboards and alerts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

import agentcompass

DEPLOY = Path(agentcompass.__file__).resolve().parent / "deploy"
_NAME = re.compile(r"\b(?:agentcompass|temporal)_[a-z_]+\b")


def dashboard() -> dict[str, object]:
    """The Grafana dashboard."""
    found: dict[str, object] = json.loads(
        (DEPLOY / "grafana" / "agentcompass.json").read_text(encoding="utf-8")
    )
    return found


def expressions() -> list[str]:
    """All of them, of the dashboard's panels and variables and of the alerts."""
    document = json.loads(json.dumps(dashboard()))
    found = [target["expr"] for panel in document["panels"] for target in panel["targets"]]
    found += [item["query"] for item in document["templating"]["list"]]
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))
    return found + [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


def used_names() -> set[str]:
    """Every metric that a dashboard or an alert asks for."""
    return {name for expression in expressions() for name in _NAME.findall(expression)}


def exposed_names(text: str) -> set[str]:
    """Every series' name in what Prometheus scrapes."""
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if line and not line.startswith("#")}
