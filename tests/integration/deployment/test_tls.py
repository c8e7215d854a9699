"""A server behind TLS: certificates of server and client, API keys, and profiles of temporal.toml."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from tls_proxy import Authority, TlsProxy

ROWS = [{"id": "q1", "question": "2 + 2?", "answer": "4"}]
API_KEY = "tk-of-the-fleet"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def mutual(cluster: Cluster, authority: Authority) -> Iterator[TlsProxy]:
    """Wants client certificates of the authority."""
    proxy = TlsProxy(cluster.address, authority.issue("server"), clients=authority.certificate)
    with proxy.running() as address:
        cluster.command_line.env["TEMPORAL_ADDRESS"] = address
        yield proxy


def test_worker_and_command_reach_a_server_that_wants_client_certificates(
    cluster: Cluster, authority: Authority, mutual: TlsProxy
) -> None:
    client = authority.issue("client")
    cluster.command_line.env |= {
        "TEMPORAL_TLS": "true",
        "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(authority.certificate),
        "TEMPORAL_TLS_CLIENT_CERT_PATH": str(client.certificate),
        "TEMPORAL_TLS_CLIENT_KEY_PATH": str(client.key),
    }
    worker = cluster.worker()
    assert "1/1 tasks evaluated" in cluster.run_questions(ROWS).expect(0).stdout
    worker.terminate()
    worker.wait().expect(0)
    assert mutual.keys == {""}, "every call went through the proxy"


def test_without_a_client_certificate_the_server_is_out_of_reach(
    cluster: Cluster, authority: Authority, mutual: TlsProxy
) -> None:
    env = {"TEMPORAL_TLS": "true", "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(authority.certificate)}
    [error] = cluster.command_line.run("list", env=env).expect(3).errors
    assert f"127.0.0.1:{mutual.port}" in error and "TLS" in error


def test_server_of_another_authority_is_not_trusted(
    cluster: Cluster, authority: Authority, mutual: TlsProxy, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    client = authority.issue("client")
    env = {
        "TEMPORAL_TLS": "true",
        "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(Authority(tmp_path / "other").certificate),
        "TEMPORAL_TLS_CLIENT_CERT_PATH": str(client.certificate),
        "TEMPORAL_TLS_CLIENT_KEY_PATH": str(client.key),
    }
    cluster.command_line.run("list", env=env).expect(3)


def test_api_key_goes_with_every_call_and_a_profile_holds_the_rest(
    cluster: Cluster, authority: Authority, tmp_path: Path
) -> None:
    proxy = TlsProxy(cluster.address, authority.issue("server"), wanted_key=API_KEY)
    env = cluster.command_line.env
    with proxy.running() as address:
        file = tmp_path / "temporal.toml"
        file.write_text(
            f'[profile.fleet]\naddress = "{address}"\nnamespace = "{env.pop("TEMPORAL_NAMESPACE")}"\n'
            f'[profile.fleet.tls]\nserver_name = "temporal.test"\nserver_ca_cert_path = "{authority.certificate}"\n'
        )
        del env["TEMPORAL_ADDRESS"]
        env |= {"TEMPORAL_CONFIG_FILE": str(file), "TEMPORAL_PROFILE": "fleet", "TEMPORAL_API_KEY": API_KEY}
        worker = cluster.worker()
        cluster.run_questions(ROWS).expect(0)
        worker.terminate()
        worker.wait().expect(0)
        assert proxy.keys == {API_KEY}
        refused = cluster.command_line.run("list", env={"TEMPORAL_API_KEY": "tk-wrong"}).expect(3)
    assert API_KEY not in refused.stderr and "tk-wrong" not in refused.stderr
