"""OpenTelemetry traces of a worker: a span for every workflow, activity and phase that it carries out.

They go where OpenTelemetry's own variables say (``OTEL_EXPORTER_OTLP_ENDPOINT`` and its kin), and
nowhere when those are not set.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ... import __version__
from ...contracts.errors import ConfigurationError
from ...contracts.extras import install_command

if TYPE_CHECKING:
    from temporalio.worker import Interceptor

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
SERVICE_NAME = "agentcompass-worker"


def wants_traces(env: Mapping[str, str] = os.environ) -> bool:
    """Whether OpenTelemetry's variables name a place for traces."""
    if env.get("OTEL_SDK_DISABLED", "").lower() == "true" or env.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(env.get(name) for name in ENDPOINT_VARIABLES)


@contextlib.contextmanager
def tracing() -> Iterator[list[Interceptor]]:
    """The interceptors for a worker; what they have recorded is sent before the block is left.

    Raises ``ConfigurationError`` when traces are wanted and OpenTelemetry is not installed.
    """
    if not wants_traces():
        yield []
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from temporalio.contrib.opentelemetry import TracingInterceptor
    except ImportError as error:
        raise ConfigurationError(
            f"{ENDPOINT_VARIABLES[0]} is set, but tracing is not installed ({error.name}): {install_command('tracing')}"
        ) from None
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win: Resource.create reads them.
    defaults = {"service.version": __version__}
    if not os.environ.get("OTEL_SERVICE_NAME"):
        defaults["service.name"] = SERVICE_NAME
    provider = TracerProvider(resource=Resource.create(defaults))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("agentcompass", __version__)
    try:
        # Launches are started by commands and schedules, which have no span of their own.
        yield [TracingInterceptor(tracer, always_create_workflow_spans=True)]
    finally:
        provider.shutdown()
