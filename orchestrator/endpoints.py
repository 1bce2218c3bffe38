"""Which addresses of agents this house talks to: the operator's own list, `endpoints.toml` in the home.

    [endpoint."agent.example.org:443"]
    key_env = "MY_AGENT_KEY"       # or key_file; may be left out

    [endpoint."127.0.0.1:9000"]
    private = true                 # loopback, private and link-local addresses, and plain http

Without an entry nothing is sent anywhere: an agent's revision alone opens no connection.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.agents.endpoint import Endpoint
from orchestrator.errors import UsageError
from orchestrator.packs.validation import sentences
from orchestrator.providers import configured_key

FILE_NAME: Final = "endpoints.toml"


class EndpointError(UsageError):
    """An address is not on the operator's list, or the list is wrong."""

    code = "endpoint"


class Listed(BaseModel):
    """One address. `private`: it may be one that the public cannot reach, and without TLS.

    `ca_file` is a file of certificates that are trusted for it instead of the system's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    key_file: Path | None = None
    private: Annotated[bool, Field(strict=True)] = False
    ca_file: Path | None = None

    def key(self) -> str | None:
        """The key, read by workers only; None where none is configured or there."""
        return configured_key(self.key_file, self.key_env)


def listed(path: Path, endpoint: Endpoint) -> Listed:
    """The entry of an endpoint's address in the list at `path`.

    `EndpointError` where it has none, where the list cannot be read, and for plain http to an address that
    is not `private`.
    """
    address, entries = endpoint.address, _entries(path)
    given = entries.get(address)
    if given is None:
        raise EndpointError(
            f"the address {address} is not on the list of endpoints",
            hint=f'add [endpoint."{address}"] to {path} if you trust who answers there',
        )
    try:
        found = Listed.model_validate(given)
    except ValidationError as error:
        said = sentences(error, {"key_env"})[0]
        raise EndpointError(f"{path}: endpoint {address}: {said}") from None
    if endpoint.url.startswith("http:") and not found.private:
        raise EndpointError(
            f"{address} would be called without TLS", hint="use https, or list the address as private = true"
        )
    return found


def _entries(path: Path) -> dict[str, object]:
    if not path.exists():
        return {}
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise EndpointError(f"{path}: cannot be read: {error}") from None
    entries = data.pop("endpoint", {})
    if data or not isinstance(entries, dict):
        raise EndpointError(f'{path}: endpoints are written as [endpoint."HOST:PORT"], and nothing else')
    return entries
