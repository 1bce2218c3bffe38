"""Where an endpoint may be: public addresses, each one looked at, unless the operator listed it so."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agents.endpoint import Endpoint, address_of
from orchestrator.attempts import EndpointTerms
from orchestrator.endpoints import EndpointError, listed
from workers.adapters.endpoint.address import Address, choose, is_public
from workers.adapters.endpoint.errors import AddressRefusedError, EndpointRefusedError
from workers.adapters.endpoint.target import target_of

PUBLIC = "93.184.216.34"
INNER = (
    *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.1", "192.168.1.1"),
    *(
        "169.254.169.254",
        "100.64.0.1",
        "192.0.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
    ),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:1::1"),
    *("", "localhost", "1", "0x7f.1"),
)


def resolve(*texts: str) -> Any:
    """A resolver that gives these addresses."""

    def found(host: str, port: int) -> list[Address]:
        return [(int(socket.AF_INET6 if ":" in text else socket.AF_INET), (text, port)) for text in texts]

    return found


@pytest.mark.parametrize("text", INNER)
def test_addresses_that_the_public_cannot_reach(text: str) -> None:
    """Loopback, private, link-local, shared, reserved, and every one of them inside of another."""
    assert not is_public(text)


@pytest.mark.parametrize("text", [PUBLIC, "2606:2800:220:1::1", f"::ffff:{PUBLIC}", "64:ff9b::5db8:d822"])
def test_addresses_that_the_public_can_reach(text: str) -> None:
    """Also written another way."""
    assert is_public(text)


def test_a_name_that_leads_to_both_is_refused() -> None:
    """Whichever comes first; the operator's word allows all of them."""
    for texts in ((PUBLIC, "127.0.0.1"), ("10.0.0.1", PUBLIC), ("::1",)):
        with pytest.raises(AddressRefusedError, match="not public"):
            choose("a", 443, private=False, resolve=resolve(*texts))
        assert choose("a", 443, private=True, resolve=resolve(*texts))[1][0] == texts[0]
    assert choose("a", 443, private=False, resolve=resolve(PUBLIC))[1] == (PUBLIC, 443)


def test_a_name_without_an_address() -> None:
    """One sentence, whatever the resolver says."""

    def fails(host: str, port: int) -> list[Address]:
        raise socket.gaierror("no")

    for found in (fails, resolve()):
        with pytest.raises(AddressRefusedError, match="has no address"):
            choose("a", 443, private=True, resolve=found)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://Agent.example.org/v1", "agent.example.org:443"),
        ("http://127.0.0.1:9000/v1/", "127.0.0.1:9000"),
        ("https://[::1]/", "[::1]:443"),
    ],
)
def test_the_address_of_a_url(url: str, address: str) -> None:
    """As the operator has to list it."""
    assert address_of(url) == address == Endpoint(url=url).address


@pytest.mark.parametrize(
    "url",
    [
        *("https://", "ftp://a/", "https://a:0/", "https://a:99999/", "https://u@a/", "https://a/?q=1"),
        *("https://a/#f", "https://a b/", "https://ä/", "a", "https://a/\n", f"https://a/{'x' * 600}"),
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    """Everything but a plain address."""
    with pytest.raises(ValueError, match=r"(?i)endpoint"):
        Endpoint(url=url)


def listing(folder: Path, text: str) -> Path:
    path = folder / "endpoints.toml"
    path.write_text(text, "utf-8")
    return path


PUBLIC_URL = Endpoint(url="https://agent.example.org/v1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "agent.example.org:443 is not on the list"),
        ('[endpoint."agent.example.org:80"]', "agent.example.org:443 is not on the list"),
        ('[endpoint."agent.example.org:443"]\nkey = "hunter2"', "endpoint agent.example.org:443"),
        ('[endpoint."agent.example.org:443"]\nkey_env = "hunter2 x"', "endpoint agent.example.org:443"),
        ('[endpoint."agent.example.org:443"]\nprivate = "yes"', "endpoint agent.example.org:443"),
        ('[endpoints."agent.example.org:443"]', "written as"),
        ("endpoint = 1", "written as"),
        ("[", "cannot be read"),
    ],
)
def test_what_is_not_listed_is_not_called(tmp_path: Path, text: str, said: str) -> None:
    """One sentence; a key that was written there is not repeated."""
    with pytest.raises(EndpointError, match=said) as caught:
        listed(listing(tmp_path, text), PUBLIC_URL)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(EndpointError, match="not on the list"):
        listed(tmp_path / "nowhere.toml", PUBLIC_URL)


def test_plain_http_is_for_private_addresses(tmp_path: Path) -> None:
    """A key would be readable on the way."""
    plain = Endpoint(url="http://agent.example.org:80/v1")
    path = listing(tmp_path, '[endpoint."agent.example.org:80"]')
    with pytest.raises(EndpointError, match="without TLS"):
        listed(path, plain)
    path = listing(tmp_path, '[endpoint."agent.example.org:80"]\nprivate = true')
    assert listed(path, plain).private


def test_the_worker_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """List, key and address are the worker's own; every try has another session; the key is not shown."""
    monkeypatch.setenv("AGENT_KEY", "sk-secret")
    path = listing(tmp_path, '[endpoint."agent.example.org:443"]\nkey_env = "AGENT_KEY"')
    terms = EndpointTerms(PUBLIC_URL.url, "agent", 5, path)
    one, two = (target_of(terms, resolve(PUBLIC)) for _ in range(2))
    assert one.address[1] == (PUBLIC, 443) and one.tls is not None and one.key == "sk-secret"
    assert one.session != two.session and len(one.session) == 32 and "sk-secret" not in repr(one)
    with pytest.raises(EndpointRefusedError):
        target_of(terms, resolve("127.0.0.1"))
    path.write_text("")
    with pytest.raises(EndpointRefusedError, match="not on the list"):
        target_of(terms, resolve(PUBLIC))
