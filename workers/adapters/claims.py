"""What an agent says about its own run, from what it printed and left: untrusted, and never an outcome.

One reader per form, named by the profile. Anything may be missing or wrong: then nothing is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from orchestrator.agents.launching import ClaimsForm
from orchestrator.evidence.claims import MAX_FIGURE, Figures
from workers.adapters.shell.conversation import listed, mapped
from workers.adapters.shell.transport import parsed

MOST_LINES: Final = 100_000
_NUSD: Final = 10**9


def claims(form: ClaimsForm, printed: bytes, transcripts: Mapping[str, bytes]) -> Figures:
    """The figures in what the agent printed, or in the transcripts that it left (by name); never raises."""
    return _FORMS[form](printed, transcripts)


def acp_claims(said: Mapping[str, Any]) -> Figures:
    """What an agent that is talked to says of its usage (`AcpEnd.claims`); never raises.

    The protocol reports usage of the whole session with each turn, so the newest one counts; what was read
    from or written to a cache, and thoughts, are beside input and output.
    """
    told = [mapped(mapped(turn).get("usage")) for turn in listed(said.get("turns"))]
    usage: Mapping[str, Any] = next((one for one in reversed(told) if one), {})
    cached = (usage.get("cachedReadTokens"), usage.get("cachedWriteTokens"))
    read, written = usage.get("inputTokens"), usage.get("outputTokens")
    return Figures(
        input_tokens=None if read is None else _sum(read, *cached),
        output_tokens=None if written is None else _sum(written, usage.get("thoughtTokens")),
    )


def _lines(raw: bytes) -> Iterator[Mapping[str, Any]]:
    for line in raw.split(b"\n", MOST_LINES)[:MOST_LINES]:
        if line.startswith(b"{") and (document := parsed(line)) is not None:
            yield document


def _figure(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_FIGURE else None


def _sum(*values: object) -> int | None:
    """The sum of what is there; None if nothing is, or something is no figure."""
    given = [value for value in values if value is not None]
    known = [figure for value in given if (figure := _figure(value)) is not None]
    return _figure(sum(known)) if given and len(known) == len(given) else None


def _cost(value: object) -> int | None:
    """USD as an agent prints them, in nano-USD."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return _figure(int((Decimal(str(value)) * _NUSD).to_integral_value()))


def _claude(printed: bytes, transcripts: Mapping[str, bytes]) -> Figures:
    """Claude Code's `stream-json`: messages by their ids, tool uses in them, and a result record."""
    messages: set[str] = set()
    tools: set[str] = set()
    result: Mapping[str, Any] = {}
    for record in _lines(printed):
        if record.get("type") == "result":
            result = record
        message = mapped(record.get("message"))
        if record.get("type") == "assistant" and isinstance(known := message.get("id"), str):
            messages.add(known)
            blocks = [mapped(block) for block in listed(message.get("content"))]
            tools |= {str(block.get("id")) for block in blocks if block.get("type") == "tool_use"}
    if not result:
        return Figures()
    usage = mapped(result.get("usage"))
    cached = (usage.get("cache_creation_input_tokens"), usage.get("cache_read_input_tokens"))
    return Figures(
        model_calls=len(messages),
        tool_calls=len(tools),
        input_tokens=_sum(usage.get("input_tokens"), *cached),
        output_tokens=_figure(usage.get("output_tokens")),
        cost_nusd=_cost(result.get("total_cost_usd")),
    )


def _codex(printed: bytes, transcripts: Mapping[str, bytes]) -> Figures:
    """codex `--json`: items as they are completed, usage of each turn (cached input is inside of it)."""
    tools, turns = 0, []
    for record in _lines(printed):
        if record.get("type") == "turn.completed":
            turns.append(mapped(record.get("usage")))
        elif record.get("type") == "item.completed":
            tools += mapped(record.get("item")).get("type") in _CODEX_TOOLS
    if not turns:
        return Figures()
    return Figures(
        tool_calls=tools,
        input_tokens=_sum(*(turn.get("input_tokens") for turn in turns)),
        output_tokens=_sum(*(turn.get("output_tokens") for turn in turns)),
    )


_CODEX_TOOLS: Final = ("command_execution", "file_change", "mcp_tool_call", "web_search")


def _gemini(printed: bytes, transcripts: Mapping[str, bytes]) -> Figures:
    """gemini-cli's `json`: one object with statistics by model."""
    stats = mapped(mapped(parsed(printed)).get("stats"))
    models = [mapped(model) for model in mapped(stats.get("models")).values()]
    tokens = [mapped(model.get("tokens")) for model in models]
    return Figures(
        model_calls=_sum(*(mapped(model.get("api")).get("totalRequests") for model in models)),
        tool_calls=_figure(mapped(stats.get("tools")).get("totalCalls")),
        input_tokens=_sum(*(one.get("prompt") for one in tokens)),
        output_tokens=_sum(
            *(part for one in tokens for part in (one.get("candidates"), one.get("thoughts")))
        ),
    )


def _mini(printed: bytes, transcripts: Mapping[str, bytes]) -> Figures:
    """mini-swe-agent's trajectory: calls and cost by its own price map (0 where it knows none)."""
    for raw in transcripts.values():
        stats = mapped(mapped(mapped(parsed(raw)).get("info")).get("model_stats"))
        if stats:
            cost = _cost(stats.get("instance_cost"))
            return Figures(model_calls=_figure(stats.get("api_calls")), cost_nusd=cost or None)
    return Figures()


_FORMS: Final[Mapping[ClaimsForm, Callable[[bytes, Mapping[str, bytes]], Figures]]] = {
    "claude-stream": _claude,
    "codex-events": _codex,
    "gemini-stats": _gemini,
    "mini-trajectory": _mini,
}
