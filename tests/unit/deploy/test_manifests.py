"""What is in deploy/: schemas where there are any, and the fields that losing work depends on.

Not run here: a Kubernetes cluster, KEDA, Compose, Grafana, Prometheus.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import compose_spec
import kubernetes_validate
import pytest
import yaml
from metric_names import DEPLOY

from agentcompass.cli.commands.worker_flags import WorkerFlags

KUBERNETES = DEPLOY / "kubernetes"
BASE = KUBERNETES / "base"
KUBERNETES_VERSION = "1.31"
WITHOUT_SCHEMA = {"Kustomization", "ScaledObject"}
MANIFESTS = sorted(KUBERNETES.rglob("*.yaml"))
_VARIABLE = re.compile(r"\$\{([A-Z_]+)(?:(:-|:\?)([^}]*))?\}")


def documents(path: Path) -> list[dict[str, Any]]:
    return [item for item in yaml.safe_load_all(path.read_text(encoding="utf-8")) if item]


def one(kind: str, folder: Path = BASE) -> dict[str, Any]:
    [found] = [item for path in folder.glob("*.yaml") for item in documents(path) if item["kind"] == kind]
    return found


def flags_of(arguments: list[str]) -> dict[str, str]:
    return dict(argument.removeprefix("--").split("=", 1) for argument in arguments if "=" in argument)


# --- Kubernetes -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: str(path.relative_to(KUBERNETES)))
def test_manifest_follows_the_schema_of_its_kind(path: Path) -> None:
    for document in documents(path):
        if document["kind"] not in WITHOUT_SCHEMA:
            kubernetes_validate.validate(document, KUBERNETES_VERSION, strict=True)


def test_schema_finds_a_misspelt_field() -> None:
    worker = one("Deployment")
    worker["spec"]["template"]["spec"]["terminationGracePeriod"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(worker, KUBERNETES_VERSION, strict=True)


@pytest.mark.parametrize("folder", ["base", "codec-server"])
def test_kustomization_names_every_manifest(folder: str) -> None:
    resources = one("Kustomization", KUBERNETES / folder)["resources"]
    there = {path.name for path in (KUBERNETES / folder).glob("*.yaml")} - {"kustomization.yaml"}
    assert set(resources) == there


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("folder", ["base", "codec-server"])
def test_kustomize_builds_what_the_files_say(folder: str) -> None:
    command = ["kubectl", "kustomize", str(KUBERNETES / folder)]
    built = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    written = [item for path in (KUBERNETES / folder).glob("*.yaml") for item in documents(path)]
    kinds = sorted(item["kind"] for item in written if item["kind"] != "Kustomization")
    found = [item for item in yaml.safe_load_all(built) if item]
    assert sorted(item["kind"] for item in found) == kinds
    for item in found:
        if item["kind"] not in WITHOUT_SCHEMA:
            kubernetes_validate.validate(item, KUBERNETES_VERSION, strict=True)


def test_pod_is_killed_later_than_its_worker_has_drained() -> None:
    pod = one("Deployment")["spec"]["template"]["spec"]
    flags = flags_of(pod["containers"][0]["args"])
    assert pod["terminationGracePeriodSeconds"] >= float(flags["drain-seconds"]) + 20


def test_containers_may_not_do_what_they_need_not_do() -> None:
    pods = [one("Deployment"), one("Job"), one("Deployment", KUBERNETES / "codec-server")]
    for pod in [item["spec"]["template"]["spec"] for item in pods]:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]


def test_probes_ask_what_the_worker_serves() -> None:
    [container] = one("Deployment")["spec"]["template"]["spec"]["containers"]
    flags = flags_of(container["args"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert flags["health-address"] == f"0.0.0.0:{ports['health']}"
    assert flags["metrics-address"] == f"0.0.0.0:{ports['metrics']}"
    paths = {
        name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")
    }
    assert paths == {"startup": "/readyz", "readiness": "/readyz", "liveness": "/healthz"}


def test_arguments_are_those_of_the_command_line() -> None:
    arguments = one("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[0] == "worker"
    known = {f"--{name.replace('_', '-')}" for name in WorkerFlags.__dataclass_fields__}
    assert {argument.partition("=")[0] for argument in arguments[1:]} <= known


def test_autoscaler_looks_at_the_queue_and_server_that_the_worker_serves() -> None:
    scaled = one("ScaledObject")["spec"]
    worker, connection = one("Deployment"), one("ConfigMap")["data"]
    [trigger] = scaled["triggers"]
    flags = flags_of(worker["spec"]["template"]["spec"]["containers"][0]["args"])
    assert scaled["scaleTargetRef"]["name"] == worker["metadata"]["name"]
    assert trigger["type"] == "temporal"
    assert trigger["metadata"]["taskQueue"] == flags["task-queue"]
    assert trigger["metadata"]["endpoint"] == connection["TEMPORAL_ADDRESS"]
    assert trigger["metadata"]["namespace"] == connection["TEMPORAL_NAMESPACE"]
    assert all(isinstance(value, str) for value in trigger["metadata"].values()), "KEDA takes strings only"
    assert "replicas" not in worker["spec"], "applying the manifest would undo the autoscaler"


def test_selectors_find_the_pods() -> None:
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        spec = one(kind)["spec"]
        selector = spec.get("selector") or spec["podSelector"]
        assert selector["matchLabels"].items() <= labels
    codec = KUBERNETES / "codec-server"
    pods = one("Deployment", codec)["spec"]["template"]["metadata"]["labels"].items()
    assert one("Service", codec)["spec"]["selector"].items() <= pods


def test_secrets_that_are_named_have_an_example_and_no_manifest_holds_one() -> None:
    text = "\n".join(path.read_text() for path in MANIFESTS if path.name != "secrets.example.yaml")
    named = set(re.findall(r"secretRef:\s+name: (\S+)|secretKeyRef:\s+name: (\S+)|secretName: (\S+)", text))
    examples = {item["metadata"]["name"] for item in documents(KUBERNETES / "secrets.example.yaml")}
    assert {name for names in named for name in names if name} == examples
    values = [
        value
        for item in documents(KUBERNETES / "secrets.example.yaml")
        for value in item["stringData"].values()
    ]
    assert {value.rpartition("=")[2] for value in values} == {"replace-me"}


# --- Compose --------------------------------------------------------------------------------


def compose(env: dict[str, str]) -> str:
    """The file with its variables filled in, as Compose does before it reads it."""

    def value(match: re.Match[str]) -> str:
        name, operator, argument = match.groups()
        if operator == ":?" and not env.get(name):
            raise LookupError(argument)
        return env.get(name) or (argument if operator == ":-" else "")

    return _VARIABLE.sub(value, (DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(compose({"POSTGRES_PASSWORD": "p"}))["services"]
    return found


def test_compose_file_follows_the_specification() -> None:
    options = compose_spec.PyOptions(apply_merge=True)
    options.from_yaml(compose({"POSTGRES_PASSWORD": "p"})).validate()
    with pytest.raises(ValueError, match="stop_grace"):
        options.from_yaml(
            compose({"POSTGRES_PASSWORD": "p"}).replace("stop_grace_period", "stop_grace")
        ).validate()


def test_compose_wants_a_password_to_be_set() -> None:
    with pytest.raises(LookupError, match="set POSTGRES_PASSWORD"):
        compose({})


def test_compose_worker_is_killed_later_than_it_has_drained() -> None:
    worker = services()["worker"]
    flags = flags_of(worker["command"])
    assert int(worker["stop_grace_period"].removesuffix("s")) >= float(flags["drain-seconds"]) + 20
    assert worker["init"] is True


def test_compose_prepares_temporal_before_a_worker_starts_and_shares_the_results() -> None:
    found = services()
    assert found["worker"]["depends_on"] == {"setup": {"condition": "service_completed_successfully"}}
    assert found["setup"]["command"] == ["setup"]
    assert found["worker"]["volumes"] == found["cli"]["volumes"] == ["results:/results"]


def test_compose_publishes_ports_on_this_machine_only() -> None:
    ports = [port for service in services().values() for port in service.get("ports", [])]
    assert len(ports) == 3 and all(port.startswith("127.0.0.1:") for port in ports)


def test_compose_mounts_files_that_are_there_and_example_names_its_variables() -> None:
    mounted = [
        volume.split(":")[0]
        for service in services().values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    ]
    assert mounted and all((DEPLOY / name).is_file() for name in mounted)
    asked = {match[1] for match in _VARIABLE.finditer((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))}
    example = (DEPLOY / "example.env").read_text(encoding="utf-8")
    assert {name for name in asked if f"{name}=" not in example} == {
        "AGENTCOMPASS_IMAGE",
        "BASE_IMAGE",
    }


# --- the image ------------------------------------------------------------------------------


def test_image_runs_as_nobody_in_particular_and_is_stopped_politely() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    final = text.rpartition("\nFROM ")[2]
    assert "\nUSER ${UID}:${UID}\n" in final and "ARG UID=10001" in final
    assert "\nSTOPSIGNAL SIGTERM\n" in final
    assert 'ENTRYPOINT ["agentcompass"]' in final, "a shell would keep the signal to itself"


def test_everything_that_the_package_consists_of_gets_into_the_image() -> None:
    kept = {
        line[1:]
        for line in (DEPLOY.parent / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    code = {path.parent.relative_to(DEPLOY.parent).parts[0] for path in DEPLOY.parent.glob("*/__init__.py")}
    assert code <= kept
    assert {"pyproject.toml", "README.md", "LICENSE", "py.typed", "__init__.py", "worker.py"} <= kept
