"""The `[environment]` part of task.toml: resources, network, services (reference/harbor.md section 1).

Values are parsed as leniently as Harbor parses them; whether they can be run faithfully is decided in
`orchestrator.packs.refusals`.
"""

from __future__ import annotations

import ipaddress
import re
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False, le=31_536_000)]
"""A time limit in seconds: more than 0, at most one year."""
Delay = Annotated[float, Field(ge=0, allow_inf_nan=False, le=31_536_000)]
"""A waiting time in seconds: 0 to one year."""
Megabytes = Annotated[int, Field(gt=0, le=2**33)]
User = str | int
"""A user name or a uid."""

_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SIZE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([GMK])")
_SIZE_FACTOR: Final = {"G": Decimal(1024), "M": Decimal(1), "K": Decimal(1) / 1024}
_CREDENTIAL_NAME: Final = re.compile(r"key|secret|token|password|credential|auth|cookie", re.IGNORECASE)
_REFERENCES_ONLY: Final = re.compile(
    r"\s*([A-Za-z]+\s+)?\$\{[A-Za-z_]\w*(:-)?\}([\s:-]*\$\{[A-Za-z_]\w*(:-)?\})*\s*"
)


class Section(BaseModel):
    """Base of all sections: frozen, unknown keys ignored (they are listed in `TaskConfig.unknown_keys`)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    legacy_keys: ClassVar[frozenset[str]] = frozenset()


class NetworkMode(StrEnum):
    """What a phase may reach."""

    PUBLIC = "public"
    NO_NETWORK = "no-network"
    ALLOWLIST = "allowlist"


def check_host(host: str) -> str:
    """A host name, `*.name`, IP address or CIDR range in normal form; `ValueError` for anything else."""
    name = host.strip().lower().rstrip(".")
    try:
        return ipaddress.ip_network(name, strict=True).compressed if "/" in name else _address(name)
    except ValueError:
        labels = name.removeprefix("*.").split(".")
        if not all(_LABEL.fullmatch(label) for label in labels) or labels[-1].isdigit():
            raise ValueError(f"{host!r} is not a host name, *.name, IP address or CIDR range") from None
    return name


def _address(name: str) -> str:
    if "%" in name:
        raise ValueError("scoped addresses are not allowed")
    return ipaddress.ip_address(name).compressed


class PhaseNetwork(Section):
    """Network keys of `[agent]` and `[verifier]`; None means that the phase inherits the environment's."""

    network_mode: NetworkMode | None = None
    allowed_hosts: tuple[str, ...] | None = None

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, hosts: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if hosts is None else tuple(check_host(host) for host in hosts)

    @model_validator(mode="after")
    def _hosts_need_allowlist(self) -> Self:
        listed = self.allowed_hosts is not None if self.network_mode is None else bool(self.allowed_hosts)
        if listed and self.network_mode is not NetworkMode.ALLOWLIST:
            raise ValueError("allowed_hosts is only valid with network_mode = 'allowlist'")
        return self


class Healthcheck(Section):
    """Readiness probe with Docker's polling semantics."""

    command: str
    interval_sec: Delay = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: Delay = 0.0
    start_interval_sec: Delay = 5.0
    retries: Annotated[int, Field(ge=0)] = 3


class Tpu(Section):
    """A TPU slice."""

    type: Annotated[str, Field(min_length=1)]
    topology: Annotated[str, Field(pattern=r"^\s*[1-9]\d*(x[1-9]\d*)+\s*$")]


class McpServer(Section):
    """One MCP server offered to the agent; credentials only as `${VAR}` references."""

    name: str
    transport: Literal["stdio", "sse", "streamable-http"] = "sse"
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    headers: dict[str, str] = Field(default_factory=dict)

    @field_validator("transport", mode="before")
    @classmethod
    def _short_name(cls, value: object) -> object:
        return "streamable-http" if value == "http" else value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.transport == "stdio":
            if not self.command:
                raise ValueError("transport 'stdio' needs command")
            if self.headers:
                raise ValueError("headers go with HTTP transports only")
        elif not self.url:
            raise ValueError(f"transport {self.transport!r} needs url")
        for name, value in self.headers.items():
            if "\r" in value or "\n" in value:
                raise ValueError(f"header {name!r} holds a line break")
            if _CREDENTIAL_NAME.search(name) and value.strip() and not _REFERENCES_ONLY.fullmatch(value):
                raise ValueError(f"header {name!r} holds a literal credential; write ${{VAR}} instead")
        return self


def parse_size_mb(text: str) -> int:
    """Legacy sizes ("2G", "512M", "1024K") in whole megabytes, rounded down as Harbor rounds them."""
    match = _SIZE.fullmatch(text.strip().upper())
    if match is None:
        raise ValueError(f"{text!r} is not a size like '2G' or '512M'")
    return int(Decimal(match[1]) * _SIZE_FACTOR[match[2]])


def _legacy_size(data: dict[str, Any], old: str, new: str) -> None:
    if old not in data:
        return
    value = data.pop(old)
    if not isinstance(value, str) or _SIZE.fullmatch(value.strip().upper()) is None:
        raise ValueError(f"{old} = {value!r} is not a size like '2G' or '512M'")
    size = parse_size_mb(value)
    if data.setdefault(new, size) != size:
        raise ValueError(f"{old} = {value!r} ({size} MB) contradicts {new} = {data[new]!r}")


class Environment(PhaseNetwork):
    """`[environment]` and `[verifier.environment]`; resources are None when undeclared."""

    legacy_keys: ClassVar[frozenset[str]] = frozenset({"memory", "storage"})

    network_mode: NetworkMode = NetworkMode.PUBLIC
    build_timeout_sec: Seconds = 600.0
    docker_image: Annotated[str, Field(min_length=1)] | None = None
    os: Literal["linux", "windows"] = "linux"
    cpus: Annotated[float, Field(gt=0, allow_inf_nan=False, le=1024)] | None = None
    memory_mb: Megabytes | None = None
    storage_mb: Megabytes | None = None
    gpus: Annotated[int, Field(ge=0)] | None = None
    gpu_types: tuple[str, ...] | None = None
    tpu: Tpu | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    skills_dir: str | None = None
    healthcheck: Healthcheck | None = None
    workdir: str | None = None
    allow_internet: bool | None = None

    @field_validator("os", mode="before")
    @classmethod
    def _any_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("workdir")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith("/"):
            raise ValueError(f"{value!r} is not an absolute path")
        return value

    @model_validator(mode="before")
    @classmethod
    def _legacy(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        _legacy_size(data, "memory", "memory_mb")
        _legacy_size(data, "storage", "storage_mb")
        internet = data.get("allow_internet")
        if isinstance(internet, bool) and "network_mode" not in data and "allowed_hosts" not in data:
            data["network_mode"] = NetworkMode.PUBLIC if internet else NetworkMode.NO_NETWORK
        return data

    @property
    def network_declared(self) -> bool:
        """Whether the task says anything about the network (Harbor's own default is public)."""
        return "network_mode" in self.model_fields_set
