"""Tokens and money of calls, as ATIF counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from workers.relay.trajectory.calls import Call

_DECIMALS: Final = 9
_PROMPT: Final = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "audio_input")
_COMPLETION: Final = ("output", "audio_output")
_CACHED: Final = ("cache_read",)
_WRITTEN: Final = ("cache_write_5m", "cache_write_1h")


def usd(nusd: int) -> float:
    """US dollars for a JSON number: the double that is nearest to the exact decimal with nine places.

    It is read from that decimal, never calculated; below a million dollars its shortest form is the exact
    amount again.
    """
    whole, part = divmod(abs(nusd), 10**_DECIMALS)
    return float(f"{'-' if nusd < 0 else ''}{whole}.{part:0{_DECIMALS}d}")


def _sum(call: Call, names: Sequence[str]) -> int:
    usage = call.end["usage"]
    return sum(usage[name] for name in names)


def step_metrics(call: Call) -> dict[str, Any]:
    """The metrics of one answer; prompt tokens hold cached ones, the cost is the list price on the run date.

    What is not known exactly is not given as if it were: then only `extra` has what was seen.
    """
    if not call.exact:
        seen = {"completeness": call.end.get("completeness", "unknown"), "usage": call.end.get("usage")}
        return {"extra": {name: value for name, value in seen.items() if value is not None}}
    extra = {"list_nusd": call.end["listNusd"], "standard_nusd": call.end["standardNusd"]}
    if _sum(call, _WRITTEN):
        extra["cache_write_tokens"] = _sum(call, _WRITTEN)
    if call.end["usage"]["calls"]:
        extra["provider_tool_calls"] = call.end["usage"]["calls"]
    return {
        "prompt_tokens": _sum(call, _PROMPT),
        "completion_tokens": _sum(call, _COMPLETION),
        "cached_tokens": _sum(call, _CACHED),
        "cost_usd": usd(call.end["listNusd"]),
        "extra": extra,
    }


@dataclass(frozen=True)
class Totals:
    """Sums over calls. `inexact` counts those that may have cost something nobody knows exactly."""

    prompt: int
    completion: int
    cached: int
    list_nusd: int
    standard_nusd: int
    calls: int
    inexact: int


def totals(calls: Sequence[Call]) -> Totals:
    """Add calls up; those that were not served add nothing."""
    exact = [call for call in calls if call.exact]
    return Totals(
        prompt=sum(_sum(call, _PROMPT) for call in exact),
        completion=sum(_sum(call, _COMPLETION) for call in exact),
        cached=sum(_sum(call, _CACHED) for call in exact),
        list_nusd=sum(call.end["listNusd"] for call in exact),
        standard_nusd=sum(call.end["standardNusd"] for call in exact),
        calls=len(calls),
        inexact=sum(not call.exact and not call.free for call in calls),
    )


def final_metrics(own: Sequence[Call], paid: Sequence[Call], steps: int) -> dict[str, Any]:
    """The sums of a trajectory: tokens of its `own` calls, money of all that it `paid` for.

    A sum with a part that is not known exactly is left out.
    """
    tokens, money = totals(own), totals(paid)
    extra = {"calls": money.calls, "inexact_calls": money.inexact}
    found: dict[str, Any] = {"total_steps": steps, "extra": extra}
    if not tokens.inexact:
        found["total_prompt_tokens"] = tokens.prompt
        found["total_completion_tokens"] = tokens.completion
        found["total_cached_tokens"] = tokens.cached
    if not money.inexact:
        found["total_cost_usd"] = usd(money.list_nusd)
        extra |= {"list_nusd": money.list_nusd, "standard_nusd": money.standard_nusd}
    return found
