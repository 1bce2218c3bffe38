"""One screening in detail: who, under which conditions, how far, what needs attention, what next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from orchestrator.cli.ledger_listing import Filter, certified, last_event_ms, listed_tries
from orchestrator.cli.output import DASH, dollars, duration, facts, when
from orchestrator.cli.serial import screening_data, screening_details
from orchestrator.cli.words import in_words
from orchestrator.home import Home
from orchestrator.ledger import owners, providers, queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.owners import Liveness
from orchestrator.ledger.starts import hours_text, start_hours
from orchestrator.ledger.states import OPEN_SCREENINGS

SHOWN: Final = 10
_BUNDLE: Final = "screening.zip"


def details(home: Home, ledger: Ledger, screening_id: str) -> dict[str, Any]:
    """Everything that `assize status SCREENING` shows, as plain data."""
    row = queries.screening(ledger, screening_id)
    data = screening_data(row, queries.status(ledger, screening_id)) | screening_details(row)
    done, ended = certified(ledger, screening_id)
    bundle = home.certificates / screening_id / _BUNDLE
    walls = sorted(
        one["wall_ms"]
        for one in listed_tries(ledger, screening_id, Filter(state="recorded"))
        if one["wall_ms"] is not None
    )
    return {
        **data,
        "ended_attempts": ended,
        "certified_attempts": done,
        "bundle": str(bundle) if bundle.is_file() else None,
        "median_wall_ms": walls[len(walls) // 2] if walls else None,
        "last_event_ms": last_event_ms(ledger, screening_id),
        "now_ms": queries.now_ms(ledger),
        "start_window_ms": row["window_ms"],
        "start_hours": {f"{hour:02d}": count for hour, count in start_hours(ledger, screening_id).items()},
        "providers": [asdict(one) for one in providers.views(ledger) if one.provider in row["providers"]],
        "runs_now": row["state"] in OPEN_SCREENINGS and _somebody_runs(ledger),
        "running_tries": [_short(one) for one in listed_tries(ledger, screening_id, Filter(state="running"))],
        "attention": [_short(one) for one in _attention(ledger, screening_id)],
    }


def _somebody_runs(ledger: Ledger) -> bool:
    """Whether a process that runs attempts on this ledger may be alive."""
    return any(owners.liveness(one.process) is not Liveness.DEAD for one in owners.unended(ledger))


def _attention(ledger: Ledger, screening_id: str) -> list[dict[str, Any]]:
    """What cannot be counted, and what had a platform fault on the way."""
    found = listed_tries(ledger, screening_id, Filter(state="uncountable"))
    seen = {one["id"] for one in found}
    return found + [
        one for one in listed_tries(ledger, screening_id, Filter(fault=True)) if one["id"] not in seen
    ]


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("state", "outcome", "reason", "phase", "attempts", "reruns")
    return {"try": row["id"], "task": row["task_id"], "k": row["k"], **{name: row[name] for name in names}}


def detail_lines(data: Mapping[str, Any], call: str) -> list[str]:
    """The same for a person; `call` begins the commands that are shown."""
    lines = [f"{data['screening']}  {data['agent']} on {data['pack']}"]
    lines += facts(
        [
            ("state", _state(data)),
            ("tries", _tries(data)),
            ("re-runs", f"{data['reruns']} after platform faults, {data['interruptions']} interruptions"),
            ("spend", _spend(data)),
            *_providers(data["providers"]),
            ("starts", _starts(data)),
            ("median try", duration(data["median_wall_ms"])),
            ("parties", f"requested by {data['requested_by']}, funded by {data['funded_by']}"),
            ("times", f"opened {when(data['created_ms'])}, closed {when(data['closed_ms'])}"),
            ("conditions", _conditions(data["conditions"])),
            ("visibility", data["visibility"]),
            ("certificates", _certificates(data)),
            ("bundle", _bundle(data)),
        ]
    )
    lines += _tries_block("running", data["running_tries"], lambda one: str(one["phase"]))
    lines += _tries_block("attention", data["attention"], _why)
    if data["state"] in OPEN_SCREENINGS:
        lines.append("no score before the screening closes")
    lines.append(f"next: {_next(data, call)}")
    return lines


def _certificates(data: Mapping[str, Any]) -> str:
    if data["visibility"] == "private":
        return f"none, ever: private, {data['ended_attempts']} ended attempts on sandbox evidence alone"
    return f"{data['certified_attempts']} of {data['ended_attempts']} ended attempts"


def _bundle(data: Mapping[str, Any]) -> str:
    if data["visibility"] == "private":
        return DASH
    return data["bundle"] or f"{DASH} (written when the screening closes, or by assize score)"


def _state(data: Mapping[str, Any]) -> str:
    text = str(data["state"])
    if data["state"] not in OPEN_SCREENINGS:
        return text
    if data["last_event_ms"] is not None:
        age_ms = max(0, data["now_ms"] - data["last_event_ms"])
        text += f", last event {duration(age_ms)} ago ({when(data['last_event_ms'])})"
    return text if data["runs_now"] else f"{text}; no process runs it, the same screen command resumes"


def _tries(data: Mapping[str, Any]) -> str:
    return (
        f"{data['planned']} planned: {data['recorded']} recorded ({data['passed']} passed, {data['failed']}"
        f" failed), {data['uncountable']} uncountable, {data['cancelled']} cancelled, {data['open']} open"
    )


def _spend(data: Mapping[str, Any]) -> str:
    cap = "no cap" if data["cap_nusd"] is None else f"cap {dollars(int(data['cap_nusd']))}"
    platform = dollars(int(data["platform_spend_nusd"]))
    return f"{dollars(int(data['spend_nusd']))} by the agent, {cap}; {platform} by the platform"


def _starts(data: Mapping[str, Any]) -> str:
    text = hours_text({int(hour): count for hour, count in data["start_hours"].items()})
    window_ms = data["start_window_ms"]
    return f"{text}; spread over {duration(window_ms)}" if window_ms else text


def _providers(limited: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """How full the limited providers are, over all screenings; no line without one."""
    shown = [f"{one['provider']} has {one['busy']} of {one['most']} tries at a time" for one in limited]
    return [("providers", ", ".join(shown))] if shown else []


def _conditions(conditions: Mapping[str, Any]) -> str:
    tasks = conditions.get("tasks")
    shown = [f"{conditions.get('tries', DASH)} tries per task"]
    shown.append("all tasks" if tasks is None else f"{len(tasks)} chosen tasks")
    shown += [f"{name} {conditions[name]}" for name in ("network", "runtime") if conditions.get(name)]
    if conditions.get("hardware_class"):
        shown.append(str(conditions["hardware_class"]))
    caps = {name: value for name, value in (conditions.get("caps") or {}).items() if value is not None}
    return ", ".join(shown + [f"{name} {value}" for name, value in sorted(caps.items())])


def _tries_block(name: str, tries: list[dict[str, Any]], why: Any) -> list[str]:
    rows = [(name if not place else "", _try_line(one, why)) for place, one in enumerate(tries[:SHOWN])]
    if len(tries) > SHOWN:
        rows.append(("", f"and {len(tries) - SHOWN} more: assize tries SCREENING"))
    # As wide as the names above, so that everything stands in one column.
    return [line for label, text in rows for line in facts([(f"{label:<12}", text)])]


def _try_line(one: Mapping[str, Any], why: Any) -> str:
    return f"{one['try']}  {one['task']} try {one['k']}  {why(one)}"


def _why(one: Mapping[str, Any]) -> str:
    if one["state"] == "uncountable":
        return in_words(one["outcome"], one["reason"])
    now = in_words(one["outcome"], one["reason"]) if one["outcome"] else one["state"]
    return f"{one['reruns']} re-runs after platform faults, now {now}"


def _next(data: Mapping[str, Any], call: str) -> str:
    commands = [f"{call} tries {data['screening']}"]
    if data["state"] not in OPEN_SCREENINGS and data["visibility"] == "public":
        commands.append(f"{call} score {data['screening']}")
    if data["bundle"]:
        commands.append(f"{call} verify {data['bundle']}")
    return ", ".join(commands)
