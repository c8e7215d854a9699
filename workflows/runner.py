"""The sandbox that workflows run in, without a cost that only payload codecs need.

For every payload that enters or leaves a workflow, the SDK asks the workflow several times in whose
name the payload is written: a codec or an external storage may treat each workflow's payloads in
a way of its own. Each question compiles and runs a piece of code inside the sandbox, which added
up to a tenth of a worker's CPU time. Our data converter treats all alike, so here the answer is a constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

PASSTHROUGH = ("agentcompass", "pydantic", "pydantic_core", "annotated_types", "typing_extensions")
"""Modules that workflows share with the worker instead of importing a copy: our contracts are pure,
and pydantic is the converter's; a copy per workflow costs a third of the throughput."""

_NO_STORAGE = StorageDriverStoreContext()


def sandbox(converter: DataConverter) -> WorkflowRunner:
    """The runner for a worker whose client uses ``converter``."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSTHROUGH)
    asks = isinstance(converter.payload_codec, WithSerializationContext)
    if asks or converter.external_storage is not None:
        return SandboxedWorkflowRunner(restrictions=restrictions)
    return _ContextFreeRunner(restrictions=restrictions)


class _ContextFreeRunner(SandboxedWorkflowRunner):
    """Makes sandboxed workflows whose payloads have no context."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _ContextFreeInstance(super().create_instance(det))


class _ContextFreeInstance(WorkflowInstance):
    """A sandboxed workflow that is not asked for contexts."""

    def __init__(self, inner: WorkflowInstance) -> None:
        self._inner = inner

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        return self._inner.activate(act)

    def get_serialization_context(self, command_info: object) -> SerializationContext | None:
        return None

    def get_external_store_context(self, command_info: object) -> StorageDriverStoreContext:
        return _NO_STORAGE

    def get_info(self) -> Info:
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()
