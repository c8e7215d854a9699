"""The dashboard and the alerts as documents; their metrics are compared with a worker's elsewhere."""

from __future__ import annotations

import json
import re

from metric_names import DEPLOY, dashboard, expressions


def test_every_panel_says_what_it_shows() -> None:
    document = json.loads(json.dumps(dashboard()))
    for panel in document["panels"]:
        assert panel["title"] and panel["targets"]
        assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]
    assert len({panel["id"] for panel in document["panels"]}) == len(document["panels"])


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(json.dumps(dashboard()))["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and place["x"] + place["w"] <= 24
        taken |= cells


def test_variables_in_expressions_are_defined() -> None:
    document = json.loads(json.dumps(dashboard()))
    defined = {item["name"] for item in document["templating"]["list"]}
    used = {name for expression in expressions() for name in re.findall(r"\$([a-z]+)", expression)}
    assert used and used <= defined


def test_alerts_name_what_they_are_about() -> None:
    text = (DEPLOY / "prometheus" / "alerts.yaml").read_text(encoding="utf-8")
    assert text.count("alert: AgentCompass") == text.count("summary: ") == text.count("severity: ")
