"""Which Temporal namespace a client speaks to: an id that tells it from every other one."""

from __future__ import annotations

from datetime import timedelta

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

_TIMEOUT = timedelta(seconds=10)
_NOT_TOLD = {RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.UNAUTHENTICATED}


async def namespace_identity(client: Client) -> str:
    """The namespace's own id; where the server does not tell, its address and name.

    Addresses differ between machines, an id does not: two homes on one container engine have each
    their own server, and must not take one another's environments for left behind.
    Raises ``RPCError`` when the server does not answer.
    """
    try:
        answer = await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace), timeout=_TIMEOUT
        )
    except RPCError as error:
        if error.status not in _NOT_TOLD:
            raise
        return f"{client.service_client.config.target_host}/{client.namespace}"
    return answer.namespace_info.id or f"{client.service_client.config.target_host}/{client.namespace}"
