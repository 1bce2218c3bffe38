"""An agent that is reached over HTTP: where, as part of its revision; what it is given is the worker's part.

The platform keeps the loop and runs the tool calls, so all that is pinned of such an agent is an address and
a name. Its tries are recorded as `unverified`, whatever it is.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

MAX_URL: int = 500
_PORTS = {"http": 80, "https": 443}


def address_of(url: str) -> str:
    """`host:port` of an endpoint's URL, the host in lower case, an IPv6 one in brackets.

    `ValueError` for what is no plain http(s) URL: with user, query, fragment, or without a host.
    """
    parts = urlsplit(url)
    host, port = parts.hostname, parts.port
    if parts.scheme not in _PORTS or not host or port == 0:
        raise ValueError("an endpoint is written as https://HOST[:PORT]/PATH")
    if (
        parts.username is not None
        or parts.query
        or parts.fragment
        or not url.isascii()
        or not url.isprintable()
    ):
        raise ValueError("an endpoint has no user, query, fragment or character beyond ASCII")
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port or _PORTS[parts.scheme]}"


class Endpoint(BaseModel):
    """`url` is the base of an OpenAI-compatible API with its version folder; `model` the name sent to it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    url: Annotated[str, Field(max_length=MAX_URL, pattern=r"^https?://[^\s?#]+$")]
    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/+-]*$", max_length=128)] = "agent"

    @field_validator("url")
    @classmethod
    def _addressed(cls, url: str) -> str:
        address_of(url)
        return url

    @property
    def address(self) -> str:
        """`host:port`, as it has to be listed by the operator."""
        return address_of(self.url)
