"""Sandboxes with services beside them, for tests on a real engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import docker
import yaml
from docker_engine import IMAGE, open_request

from agentcompass.contracts import EnvironmentSpec, NetworkPolicy, OpenRequest

WEB: dict[str, Any] = {
    "image": IMAGE,
    "command": [
        "sh",
        "-c",
        "mkdir -p /srv && echo served by web > /srv/index.html && httpd -f -p 8080 -h /srv",
    ],
    "healthcheck": {
        "test": "wget -q -O /dev/null http://127.0.0.1:8080/",
        "interval": "100ms",
        "retries": 100,
    },
}
"""A service that serves a page at port 8080."""


def write_compose(folder: Path, services: dict[str, Any], **top: Any) -> str:
    """A compose file with these services; returns its path."""
    file = folder / "docker-compose.yaml"
    file.write_text(yaml.safe_dump({"services": services, **top}, sort_keys=False), encoding="utf-8")
    return str(file)


def services_request(
    folder: Path, services: dict[str, Any], policy: Any = "no-network", top: Any = None, **spec: Any
) -> OpenRequest:
    """A request for a sandbox with these services."""
    setup = {"compose_file": write_compose(folder, services, **(top or {})), "build_timeout_seconds": 60.0}
    setup |= spec.pop("setup", {})
    return open_request(
        spec=EnvironmentSpec(id="docker", network_policy=policy, setup=setup, **spec),
        network_policy=NetworkPolicy.model_validate(policy),
    )


def belongings(client: docker.DockerClient, environment_id: str) -> list[str]:
    """Names of everything on the engine that carries the label of a sandbox."""
    filters = {"label": [f"agentcompass.environment={environment_id}"]}
    containers = [name for item in client.api.containers(all=True, filters=filters) for name in item["Names"]]
    networks = [item["Name"] for item in client.api.networks(filters=filters)]
    volumes = [item["Name"] for item in client.api.volumes(filters=filters)["Volumes"] or []]
    return sorted([*containers, *networks, *volumes])


def service_container(client: docker.DockerClient, environment_id: str, service: str) -> Any:
    """The container of one service."""
    labels = [f"agentcompass.environment={environment_id}", f"agentcompass.service={service}"]
    [found] = client.containers.list(all=True, filters={"label": labels})
    return found


def in_service(client: docker.DockerClient, environment_id: str, service: str, script: str) -> str:
    """What a script prints inside a service."""
    ended = service_container(client, environment_id, service).exec_run(["sh", "-c", script])
    return str(ended.output.decode("utf-8", "replace"))
