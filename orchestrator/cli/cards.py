"""The Pack Score card for a person (reference/scoring.md section 5, UI-10 .. UI-14)."""

from __future__ import annotations

from typing import Any

from orchestrator.screenings.scorecard import Scored
from scoring.card_data import as_data, status_text
from scoring.pack_card import PackScoreCard

_WIDTH = 25


def _row(name: str, text: str) -> str:
    return f"  {name:<{_WIDTH}} {text}"


def _figure(data: dict[str, Any], unit: str = "") -> str:
    if data["reason"] is not None:
        return f"—  ({data['reason']})"
    return f"{data['display']}{unit}"


def _kinds(kinds: list[dict[str, Any]]) -> str:
    return " (" + ", ".join(f"{one['count']} {one['kind']}" for one in kinds) + ")" if kinds else ""


def _labels(data: dict[str, Any]) -> str:
    labels = data["labels"]
    shown = []
    if labels["partial_screen"]:
        shown.append("Partial screen: " + ", ".join(labels["partial_causes"]))
    if labels["short_screen"]:
        shown.append("Short screen")
    if labels["older_pack_version"]:
        shown.append("Older pack version")
    if labels["simulated"]:
        shown.append("Simulated")
    return "; ".join(shown) or "none"


def _counted(card: PackScoreCard) -> str:
    if card.tries_min is None:
        return "no counted tries"
    some = card.tries_min if card.tries_min == card.tries_max else f"{card.tries_min}-{card.tries_max}"
    return f"{some} counted tries each"


def card_lines(scored: Scored, version: str) -> list[str]:
    """The card, one line a row, in the order of UI-10."""
    card: PackScoreCard = scored.card
    data = as_data(card)
    counts, noise, key = data["counts"], data["noise"], data["key"]
    score = _figure(data["pack_score"]) if card.pack_score is not None else f"—  ({status_text(card)})"
    interval = data["interval"]
    if card.pack_score is not None and interval["reason"] is None:
        score += f"   95% interval {interval['low']} .. {interval['high']}"
    unfinished, level = data["unfinished_spend"], "simulated" if data["labels"]["simulated"] else "verified"
    lines = [
        f"Pack Score  {key['agent']}@{version}  on  {key['pack']}@{key['pack_version']}",
        _row("Pack Score (pass^1)", score),
        _row("floor .. ceiling", f"{_figure(data['floor'])} .. {_figure(data['ceiling'])}"),
        _row("every try passes (pass^3)", _figure(data["pass3"])),
        _row("tasks scored", f"{card.tasks_scored} of {card.tasks_in_pack}, {_counted(card)}"),
        _row("did not finish", f"{counts['unfinished']}{_kinds(counts['unfinished_by_kind'])}"),
        _row("no verdict", str(counts["no_verdict"])),
        _row(
            "could not be counted",
            f"{counts['could_not_be_counted']}{_kinds(counts['could_not_be_counted_by_kind'])}",
        ),
        _row("left out (certificate)", str(counts["left_out_certificate"])),
        _row("labels", _labels(data)),
        _row("USD per task", _figure(data["usd_per_task"])),
        _row("USD of unfinished tries", _figure(unfinished)),
        _row("do-nothing floor", _figure(data["do_nothing_floor"])),
        _row(
            "noise",
            f"re-run of the same tasks ±{_figure(noise['rerun_same_tasks'])}, "
            f"other tasks ±{_figure(noise['other_tasks'])}",
        ),
        _row(
            "cannot be told apart",
            f"differences under {_figure(noise['minimum_detectable_difference'])} points",
        ),
        _row(
            "judge, evidence",
            f"{key['judge']}, sandbox {level}, {len(card.certificate_digests)} certificates",
        ),
        *_graded_in_place(scored),
        *_claims(scored),
        _row("methodology", f"{card.methodology}; inputs {card.inputs_digest[:16]}"),
    ]
    if not scored.closed:
        lines.append(_row("note", "the screening is still open: these figures will change"))
    return lines


def grading_places(scored: Scored) -> list[str]:
    """Where the certified tries were graded, each place once: `fresh`, `in_place`."""
    tries = [one.predicate for one in scored.handover.result.tries if one.predicate is not None]
    return sorted({str(one["sandbox"]["gradingPlace"]) for one in tries})


def _graded_in_place(scored: Scored) -> list[str]:
    """The usual place, a container that the agent never touched, needs no row."""
    if "in_place" not in grading_places(scored):
        return []
    return [_row("graded", "in place: the tests ran on what the dead agent left, by the pack's demand")]


def _claims(scored: Scored) -> list[str]:
    """A row only where something is to be looked at: what agents say of themselves decides nothing."""
    count = scored.claims_differ
    if not count:
        return []
    what = "1 try" if count == 1 else f"{count} tries"
    return [_row("agent's own figures", f"other than metered in {what}: assize tries --claims-differ")]


def card_data(scored: Scored) -> dict[str, Any]:
    """The card as data, with what verification said."""
    beside = {"grading": grading_places(scored), "claims_differ": scored.claims_differ}
    return {"card": as_data(scored.card), **beside, **verification_data(scored)}


def verification_data(scored: Scored) -> dict[str, Any]:
    """Whether the screening is closed, and what verification said of it."""
    result = scored.handover.result
    return {
        "closed": scored.closed,
        "verification": {"exit": result.exit_code, "reasons": list(result.reasons)},
    }
