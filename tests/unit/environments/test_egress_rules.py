"""The decisions of the egress proxy, without a network."""

from __future__ import annotations

import ipaddress

import pytest

from agentcompass.contracts import NetworkPolicy
from agentcompass.plugins.environments.docker.egress.head import BadRequestError, Head
from agentcompass.plugins.environments.docker.egress.rules import (
    ForbiddenError,
    Policy,
    plain_address,
    plain_name,
)


def policy(*entries: str, mode: str = "allowlist") -> Policy:
    """As it comes from a configuration, through the contract's own validation."""
    asked = NetworkPolicy(network_mode=mode, allowed_hosts=list(entries))
    return Policy.from_json(asked.model_dump(mode="json"))


def allows(which: Policy, host: str, port: int = 443, *, of_allowed_name: bool = False) -> bool:
    address = plain_address(host)
    try:
        if address is None:
            which.require_name(plain_name(host), port)
        else:
            which.require_address(address, port, of_allowed_name=of_allowed_name)
    except ForbiddenError:
        return False
    return True


@pytest.mark.parametrize(
    ("entry", "host", "port", "expected"),
    [
        ("api.example.com", "api.example.com", 443, True),
        ("api.example.com", "API.Example.COM.", 8080, True),
        ("api.example.com", "x.api.example.com", 443, False),
        ("api.example.com:443", "api.example.com", 80, False),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "badexample.com", 443, False),
        ("*.example.com:8443", "a.example.com", 443, False),
        ("10.1.0.0/16", "10.1.255.1", 443, True),
        ("10.1.0.0/16", "10.2.0.1", 443, False),
        ("10.1.2.3:22", "10.1.2.3", 22, True),
        ("10.1.2.3:22", "10.1.2.3", 443, False),
        ("10.1.2.3", "::ffff:10.1.2.3", 443, True),
        ("2001:db8::/32", "2001:db8::1", 443, True),
        ("[2001:db8::1]:443", "[2001:db8::1]", 443, True),
        ("[2001:db8::1]:443", "[2001:db8::1]", 80, False),
        ("2001:db8::1", "2001:db8::2", 443, False),
    ],
)
def test_an_entry_allows_what_it_says(entry: str, host: str, port: int, expected: bool) -> None:
    assert allows(policy(entry), host, port) is expected


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "::1", "fe80::1", "0.0.0.0", "fd00:ec2::254"]
)
def test_an_allowed_name_may_not_stand_for_the_proxy_s_surroundings(address: str) -> None:
    assert not allows(policy("rebound.example.com"), address, of_allowed_name=True)
    assert allows(policy("rebound.example.com", address), address, of_allowed_name=True)


def test_an_allowed_name_may_be_in_a_private_network() -> None:
    assert allows(policy("model.example.com"), "192.168.7.7", of_allowed_name=True)


def test_an_empty_list_no_network_and_unknown_modes_allow_nothing() -> None:
    for which in (policy(), policy(mode="no-network"), Policy(), Policy(mode="surprise")):
        assert not allows(which, "example.com") and not allows(which, "8.8.8.8")


def test_public_allows_everything() -> None:
    assert allows(policy(mode="public"), "example.com") and allows(policy(mode="public"), "10.0.0.1")


@pytest.mark.parametrize("text", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1"])
def test_numbers_in_odd_forms_are_names_and_never_resolved_unless_listed(text: str) -> None:
    assert plain_address(text) is None
    assert not allows(policy("127.0.0.0/8"), text)


def test_a_zone_does_not_hide_an_address() -> None:
    assert plain_address("fe80::1%eth0") == ipaddress.ip_address("fe80::1")


def test_a_tunnel_names_its_host_and_port() -> None:
    head = Head.parse(b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (head.host, head.port, head.tunnel, head.forwarded) == ("api.example.com", 443, True, b"")


def test_a_request_is_rewritten_for_the_host_that_was_judged() -> None:
    head = Head.parse(
        b"POST http://api.example.com:8080/v1?q=1 HTTP/1.1\r\nHost: other.example.com\r\n"
        b"Proxy-Authorization: Basic abc\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n"
    )
    assert (head.host, head.port, head.tunnel) == ("api.example.com", 8080, False)
    assert head.forwarded == (
        b"POST /v1?q=1 HTTP/1.1\r\nHost: api.example.com:8080\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"
    )


def test_credentials_in_an_address_are_not_its_host() -> None:
    assert Head.parse(b"GET http://allowed.test@evil.test/ HTTP/1.1\r\n\r\n").host == "evil.test"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x05\x01\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET https://example.com/ HTTP/1.1\r\n\r\n",
        b"GET ftp://example.com/ HTTP/1.1\r\n\r\n",
        b"CONNECT example.com HTTP/1.1\r\n\r\n",
        b"CONNECT example.com:0 HTTP/1.1\r\n\r\n",
        b"CONNECT example.com:99999 HTTP/1.1\r\n\r\n",
        b"CONNECT user@example.com:443 HTTP/1.1\r\n\r\n",
        b"GET http://example.com/ HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET http://example.com/ HTTP/1.1\r\n folded: x\r\n\r\n",
        b"GET http://example.com/ HTTP/1.1\r\nA: b\nHost: evil\r\n\r\n",
        b"GET http://example.com/ HTTP/2\r\n\r\n",
    ],
)
def test_what_is_no_proper_request_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequestError):
        Head.parse(data)
