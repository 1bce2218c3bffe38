"""What admission needs to know of a request, whatever its family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ProviderTool:
    """A tool that the provider would run: `kind` in lower snake case without dates, its own use limit."""

    kind: str
    max_uses: int | None


@dataclass(frozen=True)
class RequestFacts:
    """One request, read.

    `model` is None where the path names it (Google) or nothing does. `output_limit` is the largest output in
    tokens that the request allows per choice, None when it sets no limit; `least_output` is what a limit may
    not go below. `cache_ttls` holds "5m" and "1h" as asked for. `media_parts` counts images, audio, documents
    and files, `long_media` those of them whose tokens do not follow from their bytes (all but images).
    `remote_urls` (200 characters each) would be fetched by the provider. `stored` names the first field that
    makes the input larger than its bytes or keeps it running. `history` is the list that grows from turn to
    turn. `betas` are those named in the body; headers are not looked at here.
    """

    model: str | None
    stream: bool
    output_limit: int | None
    least_output: int
    choices: int
    cache_ttls: frozenset[str]
    media_parts: int
    long_media: int
    provider_tools: tuple[ProviderTool, ...]
    remote_urls: tuple[str, ...]
    stored: str | None
    history: list[Any]
    betas: tuple[str, ...]
