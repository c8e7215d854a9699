"""The Temporal SDK's runtime of a worker process: what it logs, and the metrics that it exposes."""

from __future__ import annotations

from temporalio.runtime import LoggingConfig, PrometheusConfig, Runtime, TelemetryConfig, TelemetryFilter

from ...contracts.errors import ServiceUnreachableError
from .addresses import ListenAddress

PHASE_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)
"""Seconds: a phase is a quick local step or hours of an agent's work."""


def create_runtime(metrics: ListenAddress | None = None) -> Runtime:
    """A runtime whose core logs its errors only (to stdout, so drain it), with metrics if an address is given.

    Raises ``ServiceUnreachableError`` when that address cannot be listened on.
    """
    quiet = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    prometheus = None
    if metrics is not None:
        prometheus = PrometheusConfig(
            bind_address=metrics.text,
            counters_total_suffix=True,
            unit_suffix=True,
            durations_as_seconds=True,
            histogram_bucket_overrides={"agentcompass_phase_latency": list(PHASE_BUCKETS)},
        )
    try:
        return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=quiet), metrics=prometheus))
    except (RuntimeError, ValueError) as error:
        where = metrics.text if metrics else "no address"
        raise ServiceUnreachableError(f"metrics cannot be served on {where}: {error}") from None
