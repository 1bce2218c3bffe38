"""From an order's terms to what is called: the operator's list looked up again, the address resolved."""

from __future__ import annotations

import secrets
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from orchestrator.agents.endpoint import Endpoint
from orchestrator.attempts import EndpointTerms
from orchestrator.endpoints import EndpointError, listed
from workers.adapters.endpoint.address import Resolve, choose, resolved
from workers.adapters.endpoint.errors import EndpointRefusedError
from workers.adapters.endpoint.link import Target


def target_of(terms: EndpointTerms, resolve: Resolve = resolved) -> Target:
    """What one try calls, with a session of its own.

    Raises `EndpointRefusedError` for an address that is not listed on this host, or leads elsewhere.
    """
    try:
        entry = listed(terms.accounts, Endpoint(url=terms.url))
    except EndpointError as error:
        raise EndpointRefusedError(error.message) from None
    parts = urlsplit(terms.url)
    secure = parts.scheme == "https"
    address = choose(
        parts.hostname or "", parts.port or (443 if secure else 80), private=entry.private, resolve=resolve
    )
    tls = _context(entry.ca_file) if secure else None
    return Target(terms.url, address, tls, secrets.token_hex(16), terms.step_limit, entry.key())


def _context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise EndpointRefusedError(f"ca_file cannot be read ({type(error).__name__})") from None
