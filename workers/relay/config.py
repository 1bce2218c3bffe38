"""What the relay is told: providers with their keys, and one lane per attempt and purpose.

Everything arrives over the relay's standard input from the worker that started it, so that a key is in
no file, argument or environment variable of ours.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from workers.relay.wire.family import Family

LaneKind = Literal["agent", "platform"]
OPENAI_FAMILIES: Final = (Family.OPENAI_CHAT, Family.OPENAI_RESPONSES, Family.OPENAI_EMBEDDINGS)


@dataclass(frozen=True)
class Provider:
    """One provider account. `key` never appears in a repr.

    `base_url` stands where the agent's base URL stands: with the version folder for the OpenAI families
    (`https://api.openai.com/v1`), without it for Anthropic and Google; `openai_path` is put between it and
    the path of an OpenAI family, for a provider that has all of them below one root. With `socket_path` the
    host part is a name only. `chat_limit_field` is what it calls the output maximum of a chat call.
    `max_parallel` and `requests_per_minute` bound all attempts of this host together; None: no bound.
    """

    name: str
    base_url: str
    key: str = field(repr=False)
    families: tuple[Family, ...] = OPENAI_FAMILIES
    openai_path: str = ""
    socket_path: str | None = None
    chat_limit_field: str = "max_completion_tokens"
    max_parallel: int | None = None
    requests_per_minute: int | None = None

    def as_data(self) -> dict[str, Any]:
        """For the pipe to the relay only: it holds the key."""
        return asdict(self)

    @property
    def address(self) -> str:
        """`base_url` without a user and password in it, for evidence."""
        parts = urllib.parse.urlsplit(self.base_url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    def url(self, family: Family, rest: str) -> str:
        """The address of a call; `rest` is its path below the base URL, quoted, with its query."""
        folder = self.openai_path if family in OPENAI_FAMILIES else ""
        return f"{self.base_url.rstrip('/')}{folder}{rest}"

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Provider:
        """The inverse of `as_data`."""
        families = tuple(Family(name) for name in data["families"])
        return cls(**{**data, "families": families})


@dataclass(frozen=True)
class RelayConfig:
    """The whole configuration of a relay process. `prices` is a price sheet as plain data.

    `limits_dir` is where the relays of a host keep providers' limits together; None: this one alone.
    """

    providers: tuple[Provider, ...]
    prices: Mapping[str, Any]
    drain_s: float = 30.0
    idle_s: float = 600.0
    limits_dir: Path | None = None

    def as_data(self) -> dict[str, Any]:
        """For the pipe to the relay only: it holds the keys."""
        return {
            **vars(self),
            "providers": [one.as_data() for one in self.providers],
            "limits_dir": None if self.limits_dir is None else str(self.limits_dir),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> RelayConfig:
        """The inverse of `as_data`."""
        providers = tuple(Provider.from_data(one) for one in data["providers"])
        limits_dir = None if data["limits_dir"] is None else Path(data["limits_dir"])
        return cls(**{**data, "providers": providers, "limits_dir": limits_dir})


@dataclass(frozen=True)
class Pin:
    """A model that a lane may call, and the provider that serves it."""

    model: str
    provider: str


@dataclass(frozen=True)
class Policy:
    """What a lane may let the provider do. The default is network policy `none`.

    `provider_tools` are kinds of tools that the provider itself runs (`web_search`); `denied_betas` are
    names in a beta header that are refused, as a published condition.
    """

    provider_tools: frozenset[str] = frozenset()
    remote_urls: bool = False
    denied_betas: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LaneOrder:
    """One lane: its own socket, token, budget and transcript.

    `kind` is `agent` for the screened agent, `platform` for calls that the house pays (simulated
    customer, judge), which never count as the agent's. `cap_nusd` None means no cap; 0 means zero.
    `calls_until`: when the last call may start, in seconds of the clock that all processes of a host share
    (`time.monotonic`); it is moved while the lane is open. None is no bound.
    `state_dir` gets the transcript, `socket_dir` the socket. `rehearsal` is the SHA-256 of the script that
    stands in for every provider, None for the real ones.
    """

    lane_id: str
    kind: LaneKind
    state_dir: Path
    socket_dir: Path
    pins: tuple[Pin, ...]
    cap_nusd: int | None
    step_limit: int | None
    policy: Policy = Policy()
    rehearsal: str | None = None
    calls_until: float | None = None

    def as_data(self) -> dict[str, Any]:
        """Plain data for the pipe."""
        return {
            **vars(self),
            "state_dir": str(self.state_dir),
            "socket_dir": str(self.socket_dir),
            "pins": [asdict(pin) for pin in self.pins],
            "policy": {
                "provider_tools": sorted(self.policy.provider_tools),
                "remote_urls": self.policy.remote_urls,
                "denied_betas": sorted(self.policy.denied_betas),
            },
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> LaneOrder:
        """The inverse of `as_data`."""
        policy = data["policy"]
        return cls(
            **{
                **data,
                "state_dir": Path(data["state_dir"]),
                "socket_dir": Path(data["socket_dir"]),
                "pins": tuple(Pin(**pin) for pin in data["pins"]),
                "policy": Policy(
                    frozenset(policy["provider_tools"]),
                    policy["remote_urls"],
                    frozenset(policy["denied_betas"]),
                ),
            }
        )

    def pin(self, model: str) -> Pin | None:
        """The pin of a model by its exact name."""
        return next((pin for pin in self.pins if pin.model == model), None)
