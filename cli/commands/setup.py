"""``agentcompass setup``: prepare a Temporal cluster for AgentCompass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .gate_flags import AsJson

if TYPE_CHECKING:
    from ..cluster_setup import SetupReport


def setup(as_json: AsJson = False) -> int:
    """Prepare the Temporal namespace: create it if it is missing, register the search attributes, and
    schedule the removal of environments that were left behind.

    Which server and namespace is Temporal's standard client configuration (TEMPORAL_ADDRESS,
    TEMPORAL_NAMESPACE, …). Needed once for a cluster, and again after an update that adds attributes;
    the local server is always prepared. Changes nothing that is there already.
    """
    import asyncio

    from ..cluster_setup import set_up
    from .output import print_json

    report = asyncio.run(set_up())
    if as_json:
        print_json(report)
    else:
        print("\n".join(report_lines(report)))
    return 0


def report_lines(report: SetupReport) -> list[str]:
    """What was done, for people."""
    lines = [f"Temporal: {report.address}"]
    lines.append(f"Namespace: {report.namespace} ({'created' if report.created_namespace else 'exists'})")
    lines += [f"Search attribute: {name} (added)" for name in report.added_search_attributes]
    if report.present_search_attributes:
        lines.append(f"Search attributes that were there: {len(report.present_search_attributes)}")
    if report.created_schedule:
        lines.append("Schedule: removes environments that were left behind (added)")
    changed = report.created_namespace or report.added_search_attributes or report.created_schedule
    lines.append("Ready." if changed else "Nothing to do.")
    return lines
