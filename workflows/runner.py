"""The sandbox that workflows run in: without a cost that only some payload codecs need, and versioned or not.

For every payload that enters or leaves a workflow, the SDK asks the workflow several times in whose
name the payload is written: a codec or an external storage may treat each workflow's payloads in
a way of its own. Each question compiles and runs a piece of code inside the sandbox, which added
up to a tenth of a worker's CPU time. Our data converter treats all alike, so here the answer is a constant.

How a workflow is versioned stands at its class. A server refuses that from a worker that is no version
of a deployment, so there it is taken out of what the worker answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from temporalio.converter import (
    DataConverter,
    SerializationContext,
    StorageDriverStoreContext,
    WithSerializationContext,
)
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from temporalio.workflow import Info

if TYPE_CHECKING:
    from temporalio.bridge.proto.workflow_activation import WorkflowActivation
    from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion

PASSTHROUGH = (
    *("agentcompass", "pydantic", "pydantic_core", "annotated_types", "typing_extensions"),
    "opentelemetry",
)
"""Modules that workflows share with the worker instead of importing a copy: our contracts are pure,
pydantic is the converter's, and OpenTelemetry the tracing interceptor's; a copy per workflow costs a
third of the throughput."""

_NO_STORAGE = StorageDriverStoreContext()


def sandbox(converter: DataConverter, *, versioned: bool = False) -> WorkflowRunner:
    """The runner for a worker whose client uses ``converter``; ``versioned`` for one of a deployment."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSTHROUGH)
    asks = isinstance(converter.payload_codec, WithSerializationContext)
    contexts = asks or converter.external_storage is not None
    return _Runner(restrictions=restrictions, contexts=contexts, versioned=versioned)


@dataclass(frozen=True)
class _Runner(SandboxedWorkflowRunner):
    """Makes sandboxed workflows."""

    contexts: bool = False
    versioned: bool = False

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        inner = super().create_instance(det)
        return _Instance(inner, contexts=self.contexts, versioned=self.versioned)


class _Instance(WorkflowInstance):
    """A sandboxed workflow; without ``contexts`` it is not asked in whose name a payload is written."""

    def __init__(self, inner: WorkflowInstance, *, contexts: bool, versioned: bool) -> None:
        self._inner = inner
        self._contexts = contexts
        self._versioned = versioned

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        completion = self._inner.activate(act)
        if not self._versioned and completion.HasField("successful"):
            completion.successful.ClearField("versioning_behavior")
        return completion

    def get_serialization_context(self, command_info: Any) -> SerializationContext | None:
        return self._inner.get_serialization_context(command_info) if self._contexts else None

    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        return self._inner.get_external_store_context(command_info) if self._contexts else _NO_STORAGE

    def get_info(self) -> Info:
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()
