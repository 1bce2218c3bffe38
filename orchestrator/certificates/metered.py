"""What an attempt used, from the relay's transcript in its evidence: for the certifier and for the signer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from orchestrator.certificates.statements import PriceList, Provider, Sha256, TranscriptHead, Usage
from orchestrator.evidence import metering
from orchestrator.evidence.transcript import Chain, TranscriptError, read

TRANSCRIPT_LIMIT_BYTES: Final = 1 << 30


def usage_of(transcript: bytes) -> Usage:
    """The usage that follows from a transcript; raises `TranscriptError` if it is no unbroken chain.

    A sum is given only when every call is exactly known; the number of requests always is.
    """
    chain = read(transcript)
    prices, found = metering.prices_of(chain), metering.totals(metering.ledger_lines(chain))
    figures = found.figures or dict.fromkeys(metering.FIGURES)
    return Usage(
        metered=True,
        requests=found.requests,
        input_tokens=figures["inputTokens"],
        cached_input_tokens=figures["cachedInputTokens"],
        output_tokens=figures["outputTokens"],
        cost_nusd=figures["costNusd"],
        standard_cost_nusd=figures["standardCostNusd"],
        paid_tool_calls_nusd=figures["paidToolCallsNusd"],
        price_list=PriceList(id=prices.id, date=prices.date, digest=Sha256(sha256=prices.digest)),
        transcript=TranscriptHead(records=len(chain.records), head=Sha256(sha256=chain.head)),
        providers=_providers(chain),
    )


def _providers(chain: Chain) -> tuple[Provider, ...] | None:
    """Where the lane's providers are, from its first record; None for one that does not tell."""
    told = chain.records[0]["data"].get("providers")
    if not isinstance(told, Mapping):
        return None
    try:
        return tuple(Provider(name=name, address=address) for name, address in sorted(told.items()))
    except ValidationError:
        raise TranscriptError(1, "names a provider whose address cannot be published") from None


def ledger_of(transcript: bytes) -> bytes:
    """The metering ledger file that belongs to a transcript."""
    return metering.encode(metering.ledger_lines(read(transcript)))
