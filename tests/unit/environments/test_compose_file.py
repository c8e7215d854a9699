"""What of a compose file is understood, and what a hostile one is refused for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from agentcompass.plugins.environments.docker.compose import (
    ComposeError,
    ComposeProject,
    Condition,
    project_of,
    read_project,
)


def project(tmp_path: Path, services: Any, **top: Any) -> ComposeProject:
    return project_of(yaml.safe_dump({"services": services, **top}, sort_keys=False), tmp_path)


def service(tmp_path: Path, **keys: Any) -> ComposeProject:
    return project(tmp_path, {"db": {"image": "db:1", **keys}})


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"privileged": True}, "services have no rights beyond those of a sandbox"),
        ({"network_mode": "host"}, "services.db.network_mode: services have the network of their task"),
        ({"network_mode": "service:main"}, "services.db.network_mode"),
        ({"pid": "host"}, "services.db.pid: it would reach into the engine's machine"),
        ({"ipc": "host"}, "services.db.ipc"),
        ({"userns_mode": "host"}, "services.db.userns_mode"),
        ({"cgroup_parent": "/"}, "services.db.cgroup_parent"),
        ({"devices": ["/dev/sda:/dev/sda"]}, "services.db.devices"),
        ({"cap_add": ["SYS_ADMIN"]}, "services.db.cap_add: services have no rights"),
        ({"security_opt": ["seccomp:unconfined"]}, "services.db.security_opt"),
        ({"sysctls": {"net.ipv4.ip_forward": 1}}, "services.db.sysctls"),
        ({"ports": ["8080:8080"]}, "services.db.ports: nothing is published"),
        ({"env_file": "/etc/passwd"}, "services.db.env_file"),
        ({"extends": {"file": "../../other.yaml", "service": "x"}}, "services.db.extends"),
        ({"secrets": ["key"]}, "services.db.secrets: a task has no secrets of the worker"),
        ({"configs": ["x"]}, "services.db.configs"),
        ({"volumes_from": ["container:other"]}, "services.db.volumes_from"),
        ({"extra_hosts": ["example.com:10.0.0.1"]}, "services.db.extra_hosts"),
        ({"dns": "8.8.8.8"}, "services.db.dns"),
        ({"gpus": "all"}, "services.db.gpus"),
        ({"deploy": {"resources": {"reservations": {"devices": [{"capabilities": ["gpu"]}]}}}}, "devices"),
        ({"deploy": {"replicas": 3}}, "services.db.deploy.replicas"),
        ({"surprise": 1}, "services.db.surprise: this key is not understood"),
        ({"volumes": ["/var/run/docker.sock:/var/run/docker.sock"]}, "is not inside of the folder"),
        ({"volumes": ["/:/host"]}, "is not inside of the folder"),
        ({"volumes": ["../../etc:/data"]}, "is not inside of the folder"),
        ({"volumes": ["~/.ssh:/data"]}, "is not inside of the folder"),
        ({"volumes": ["./missing:/data"]}, "is neither a file nor a folder"),
        ({"volumes": ["data:/data"]}, "the volume 'data' is not declared"),
        ({"volumes": [".:/"]}, "must be an absolute path below '/'"),
        ({"volumes": [".:/a/../../etc"]}, "may have neither"),
        ({"volumes": [{"type": "npipe", "source": "x", "target": "/x"}]}, "services.db.volumes.0"),
        ({"volumes": [{"type": "bind", "source": "/etc", "target": "/x"}]}, "is not inside of the folder"),
        ({"build": ".."}, "services.db.build.context: '..' is not inside"),
        ({"build": "https://example.com/x.git"}, "services.db.build.context"),
        ({"build": {"context": ".", "dockerfile": "../../Dockerfile"}}, "services.db.build.dockerfile"),
        ({"build": {"context": ".", "network": "host"}}, "build.network: builds use the network"),
        ({"build": {"context": ".", "additional_contexts": {"x": "/etc"}}}, "build.additional_contexts"),
        ({"build": {"context": ".", "ssh": ["default"]}}, "build.ssh: a build has no keys"),
        ({"environment": ["AWS_SECRET_ACCESS_KEY"]}, "would be a variable of the worker"),
        ({"environment": {"AWS_SECRET_ACCESS_KEY": None}}, "would be a variable of the worker"),
        ({"environment": {"KEY": "${OPENAI_API_KEY}"}}, "reads the variable OPENAI_API_KEY of the worker"),
        ({"command": "echo $HOME"}, "services.db.command reads the variable HOME"),
        ({"command": "echo ${HOME:?}"}, "reads the variable HOME"),
        ({"command": "echo ${A:-${HOME}}"}, "has a '$' that is no variable"),
        ({"image": "${HOME"}, "has a '$' that is no variable"),
        ({"depends_on": ["nobody"]}, "there is no service 'nobody'"),
        ({"depends_on": {"main": {"condition": "service_healthy"}}}, "nobody can wait for main"),
        ({"healthcheck": {"test": ["RUN", "x"]}}, "services.db.healthcheck.test"),
        ({"healthcheck": {"interval": "soon"}}, "'soon' is not a duration"),
        ({"mem_limit": "much"}, "'much' is not a size"),
        ({"tmpfs": "/run:exec;rm -rf"}, "is not a path with options"),
        ({"user": "0;id"}, "services.db.user"),
        ({"networks": ["elsewhere"]}, "the network 'elsewhere' is not declared"),
        ({"command": "x\0y"}, "holds a NUL character"),
        ({"build": "\ud800"}, "half of one"),
        ({"build": "./" + "a/" * 3000}, "services.db.build.context"),
        ({"environment": {"A=B": "c"}}, "'A=B' is not the name of a variable"),
        ({"volumes": [{"type": "volume", "target": "/data:/etc"}]}, "neither '..' nor ':'"),
    ],
)
def test_what_would_leave_the_sandbox_or_is_not_known_is_refused(
    tmp_path: Path, keys: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ComposeError) as caught:
        service(tmp_path, **keys)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("top", "reason"),
    [
        ({"include": ["/etc/compose.yaml"]}, "include: the file must say all itself"),
        ({"secrets": {"key": {"environment": "KEY"}}}, "secrets: a task has no secrets"),
        ({"volumes": {"data": {"external": True}}}, "volumes.data.external"),
        (
            {"volumes": {"data": {"driver_opts": {"type": "none", "o": "bind", "device": "/"}}}},
            "volumes.data.driver_opts",
        ),
        ({"volumes": {"/etc": None}}, "volumes: '/etc' is not a name"),
        ({"networks": {"default": {"external": True}}}, "networks.default.external"),
        ({"networks": {"default": {"driver": "host"}}}, "networks.default.driver"),
        ({"surprise": 1}, "surprise: this key is not understood"),
    ],
)
def test_top_level_keys_are_refused_by_name(tmp_path: Path, top: dict[str, Any], reason: str) -> None:
    with pytest.raises(ComposeError) as caught:
        project(tmp_path, {"db": {"image": "db:1"}}, **top)
    assert reason in str(caught.value)


def test_a_link_in_the_folder_is_no_way_out(tmp_path: Path) -> None:
    (tmp_path / "inside").symlink_to("/etc")
    for keys in ({"volumes": ["./inside:/data:ro"]}, {"build": "./inside"}):
        with pytest.raises(ComposeError, match="is not inside of the folder"):
            service(tmp_path, **keys)


def test_a_file_whose_aliases_grow_without_end_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(ComposeError, match="more than 20000 values"):
        project_of("\n".join([*lines, "services: *a8"]), tmp_path)
    with pytest.raises(ComposeError, match="nested too deeply"):
        project_of("a: &a\n  b: *a\nservices: *a", tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no mapping with services"),
        ("services: {}", "it has no services"),
        ("services: [db]", "it has no services"),
        ("services: {db: text}", "services.db is no mapping"),
        ("services: {'a b': {}}", "'a b' is not a name"),
        ("services: {db: {}}", "services.db has neither image nor build"),
        ("services: {1: {image: x}}", "a key must be a text"),
        ("services: !!python/object/apply:os.system ['id']", "it is not YAML"),
        (
            "services: {a: {image: x, depends_on: [b]}, b: {image: x, depends_on: [a]}}",
            "wait for one another",
        ),
        ("services: {db: {image: x}}\n" + "#" * 300_000, "larger than"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ComposeError) as caught:
        project_of(text, tmp_path)
    assert reason in str(caught.value)


def test_services_that_do_not_see_one_another_are_refused(tmp_path: Path) -> None:
    services = {
        "main": {"networks": ["front"]},
        "api": {"image": "api:1", "networks": ["front", "back"]},
        "db": {"image": "db:1", "networks": ["back"]},
    }
    with pytest.raises(ComposeError, match="do not share all their networks"):
        project(tmp_path, services, networks={"front": {}, "back": None})


def test_one_network_that_all_name_is_understood_with_its_aliases(tmp_path: Path) -> None:
    services = {
        "main": {"networks": ["back"]},
        "db": {"image": "db:1", "container_name": "the-db", "networks": {"back": {"aliases": ["sql"]}}},
    }
    found = project(tmp_path, services, networks={"back": {"driver": "bridge"}})
    assert found.aliases("db") == ["db", "the-db", "sql"]


def test_services_start_after_what_they_depend_on_and_main_is_always_there(tmp_path: Path) -> None:
    services = {
        "api": {"image": "api:1", "depends_on": {"db": {"condition": "service_healthy"}}},
        "db": {"image": "db:1", "depends_on": ["seed"]},
        "seed": {"image": "seed:1"},
    }
    found = project(tmp_path, services)
    assert list(found.services) == ["main", "seed", "db", "api"]
    assert found.services["api"].depends_on["db"].condition is Condition.HEALTHY


def test_the_variables_of_harbor_mean_the_task(tmp_path: Path) -> None:
    text = """
    services:
      main:
        build: {context: "${CONTEXT_DIR}"}
        image: ${MAIN_IMAGE_NAME}
        environment: ["TEST_DIR=${TEST_DIR}", "PRICE=5$$", "LEVEL=${LEVEL:-debug}"]
        volumes: ["${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}"]
        deploy: {resources: {limits: {cpus: "${CPUS}", memory: "${MEMORY}"}}}
    """
    main = project_of(text, tmp_path).main
    assert main.environment == {"TEST_DIR": "/tests", "PRICE": "5$", "LEVEL": "debug"}
    assert (main.own_image, main.volumes, main.cores, main.memory_mb) == (None, [], None, None)


def test_a_service_beside_main_gets_no_folder_for_logs_of_the_machine(tmp_path: Path) -> None:
    with pytest.raises(ComposeError, match="is not inside of the folder"):
        service(tmp_path, volumes=["${HOST_VERIFIER_LOGS_PATH}:/logs/verifier"])


def test_the_ways_to_write_things_are_understood(tmp_path: Path) -> None:
    (tmp_path / "seed.sql").write_text("x")
    found = service(
        tmp_path,
        command="server --name 'two words'",
        entrypoint=["run", 1],
        environment={"DEBUG": True, "PORT": 5432},
        healthcheck={"test": "check", "interval": "1m30s", "timeout": "500ms"},
        volumes=["./seed.sql:/seed.sql:ro", "/var/scratch", {"type": "tmpfs", "target": "/run"}],
        deploy={"resources": {"limits": {"cpus": "0.5", "memory": "64m", "pids": 100}}},
        **{"x-note": {"anything": ["goes"]}},
    ).services["db"]
    assert found.command == ["server", "--name", "two words"]
    assert found.entrypoint == ["run", "1"]
    assert found.environment == {"DEBUG": "true", "PORT": "5432"}
    assert found.healthcheck is not None
    assert found.healthcheck.test == ["CMD-SHELL", "check"]
    assert (found.healthcheck.interval, found.healthcheck.timeout) == (90.0, 0.5)
    assert [mount.type for mount in found.volumes] == ["bind", "volume", "tmpfs"]
    assert (found.cores, found.memory_mb, found.processes) == (0.5, 64, 100)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ComposeError, match="cannot be read: No such file"):
        read_project(tmp_path / "docker-compose.yaml")
