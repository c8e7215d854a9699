"""The top of a run's page: what was evaluated, how it ended, the number and what it covers."""

from __future__ import annotations

import json

from ...contracts.metrics import MetricReport
from ..metrics.headline import format_interval, format_number, headline
from .blocks import section
from .charts import Scale, axis, interval_bar, shown, stacked_bar
from .facts import PageFacts
from .markup import Html, element, join, web_link
from .numbers import count, duration, money
from .rows import RESULTS, RowCounts


def header(facts: PageFacts) -> Html:
    """What was evaluated, and how it ended."""
    title = " · ".join(part for part in (facts.benchmark, facts.component("model")) if part)
    status = element("span", facts.status, class_=f"badge {_tone(facts)}")
    toggle = element("button", "Light / dark", id="theme", type="button", class_="quiet")
    top = element("div", element("h1", title or facts.run_dir.name), status, toggle, class_="title")
    info = facts.info
    items = [
        ("Run", facts.run_dir.name),
        ("Harness", facts.component("harness")),
        ("Environment", facts.component("environment")),
        ("Started", info.started_at if info else ""),
        ("Took", duration(facts.duration_seconds)),
        ("Reused", f"{count(facts.reused_tasks)} tasks" if facts.reused_tasks else ""),
        ("From", info.reused_from.run_id if info and info.reused_from else ""),
        ("AgentCompass", info.agentcompass_version if info else ""),
    ]
    shown_items = [
        element("div", element("dt", name), element("dd", value)) for name, value in items if value
    ]
    temporal = info.temporal.ui_address if info and info.temporal else None
    link = element("p", web_link(temporal, "Temporal UI"), class_="dim") if temporal else None
    return element("header", top, element("dl", shown_items, class_="facts"), link)


def notices(facts: PageFacts) -> Html:
    """What has to be known before the numbers are read."""
    texts: list[tuple[str, str]] = []
    if facts.report is not None and facts.report.evaluation_failed:
        texts.append(("bad", headline(facts.report)))
    if facts.info is not None and facts.info.error:
        texts.append(("bad", facts.info.error))
    if facts.info is not None and facts.info.status is None:
        texts.append(("warn", "The run is not over: this page shows what had finished when it was made."))
    texts += [("warn", text) for text in facts.notices]
    return join([element("p", text, class_=f"notice {tone}", role="status") for tone, text in texts])


def overview(facts: PageFacts, counts: RowCounts) -> Html:
    """The number with its interval, beside what it covers."""
    report = facts.report
    series = report.headline() if report else None
    if report is None or series is None:
        score = element("div", element("div", "no score", class_="number none"), class_="score")
    else:
        value, interval = shown(series)
        scale = Scale.over([series], series.kind)
        label = series.id if series.value is not None or value is None else f"{series.id}, for reference only"
        score = element(
            "div",
            element("div", label, class_="label"),
            element("div", "no score" if value is None else format_number(value), class_="number"),
            element(
                "div",
                f"{interval.level * 100:g} % interval {format_interval(interval)} ({interval.method})"
                if interval
                else "no interval",
                class_="dim",
            ),
            interval_bar(series, scale),
            axis(scale),
            class_="score",
        )
    return element("section", score, _coverage(report, counts), id="overview", class_="card hero")


def _coverage(report: MetricReport | None, counts: RowCounts) -> Html:
    total = counts.results.total()
    evaluated = report.counts.evaluated if report else sum(counts.results[name] for name in ("pass", "fail"))
    legend = [
        element(
            "li",
            element(
                "button",
                element("i", class_=f"dot r-{name}"),
                f"{text} ",
                element("b", count(number)),
                type="button",
            ),
            data_result=name,
        )
        for name, text in RESULTS.items()
        if (number := counts.results[name])
    ]
    tokens = counts.usage.totals
    facts = [
        ("Attempts valid", _attempts(report)),
        ("With errors", count(report.counts.error) if report else ""),
        (
            "Tokens",
            count(tokens.prompt_tokens.total + tokens.completion_tokens.total) if tokens.calls else "",
        ),
        ("Cost", money(tokens.cost_usd.total) if tokens.cost_usd.calls else ""),
        ("Attempt time", duration(counts.seconds) if counts.seconds else ""),
    ]
    return element(
        "div",
        element("div", f"{count(evaluated)} of {count(total)} tasks evaluated", class_="label"),
        stacked_bar(counts.results, list(RESULTS)),
        element("ul", legend, class_="legend"),
        element(
            "dl", [element("div", element("dt", k), element("dd", v)) for k, v in facts if v], class_="facts"
        ),
        class_="coverage",
    )


def _attempts(report: MetricReport | None) -> str:
    if report is None:
        return ""
    return f"{count(report.attempt_coverage.valid)} of {count(report.attempt_coverage.expected)}"


def configuration(facts: PageFacts) -> Html | None:
    """The merged request, secrets masked."""
    if not facts.request:
        return None
    text = json.dumps(facts.request, indent=2, ensure_ascii=False)
    body = element("details", element("summary", "The whole request"), element("pre", text))
    return section("Configuration", body, name="configuration")


def _tone(facts: PageFacts) -> str:
    return {"completed": "good", "not over": "warn", "cancelled": "warn"}.get(facts.status, "bad")
