"""A Pack Score card as plain data for `--json`, pages and digests: strings, integers, booleans and null.

Exact figures are `n/d` strings beside their rounded display; money is strings of nano-USD; a missing figure
is null with its reason code; there is no binary float. Keys are ASCII and every integer is a small count.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from scoring.intervals import LEVEL, EffectiveWilson
from scoring.numbers import NANO_PER_USD, fixed, points, ratio, show_points, show_usd, usd
from scoring.pack_card import Missing, PackScoreCard, Status
from scoring.pack_tally import Counts, Kinds, TaskTally

STATUS_TEXT = {
    Status.SCORED: "scored",
    Status.NONE_VERIFIED: "runs recorded, none verified",
    Status.NO_RESULTS: "No pack results yet",
}
ALL_LEFT_OUT_TEXT = "runs recorded; every verified pass was left out for its certificate"


def status_text(card: PackScoreCard) -> str:
    """The sentence that stands where the score would be (S3-25, S3-26)."""
    if card.pack_score_reason is Missing.ALL_LEFT_OUT:
        return ALL_LEFT_OUT_TEXT
    return STATUS_TEXT[card.status]


def show_bound(share: float) -> str:
    """A float share as points with one decimal (the only floats of a card are its chance figures)."""
    return fixed(points(Fraction(share)), 1)


def as_data(card: PackScoreCard) -> dict[str, Any]:
    """The whole card; equal cards give equal data, whatever the order of the tries was."""
    return {
        "methodology": card.methodology,
        "readings": [reading.as_data() for reading in card.readings],
        "key": {
            "screening": card.key.screening_id,
            "agent": card.key.agent_id,
            "agent_digest": card.key.agent_digest,
            "pack": card.key.pack_id,
            "pack_version": card.key.pack_version,
            "pack_digest": card.key.pack_digest,
            "judge": card.key.judge,
        },
        "view": card.view.value,
        "includes_non_public": card.includes_non_public,
        "status": card.status.value,
        "status_text": status_text(card),
        **_figures(card),
        "tasks_scored": card.tasks_scored,
        "tasks_in_pack": card.tasks_in_pack,
        "tries_min": card.tries_min,
        "tries_max": card.tries_max,
        "declared_tries": card.declared_tries,
        "counts": _counts(card.counts),
        "labels": {
            "partial_screen": card.labels.partial_screen,
            "partial_causes": [cause.value for cause in card.labels.partial_causes],
            "short_screen": card.labels.short_screen,
            "older_pack_version": card.labels.older_pack_version,
            "simulated": card.labels.simulated,
        },
        "tasks": [_task(task) for task in card.tasks],
        "inputs": {
            "digest": card.inputs_digest,
            "agent_digest": card.key.agent_digest,
            "pack_digest": card.key.pack_digest,
            "certificates": list(card.certificate_digests),
        },
    }


def _figures(card: PackScoreCard) -> dict[str, Any]:
    cost = card.usd_per_task
    return {
        "pack_score": _points(card.pack_score, card.pack_score_reason),
        "interval": _interval(card.interval, card.interval_reason),
        "floor": _points(card.floor, card.pack_score_reason),
        "ceiling": _points(card.ceiling, card.pack_score_reason),
        "pass3": _points(None if card.pass3 is None else points(card.pass3), card.pass3_reason)
        | {"exact": None if card.pass3 is None else ratio(card.pass3), "unit": "share"},
        "usd_per_task": {
            "exact": None if cost is None else ratio(cost),
            "nano_usd": None if cost is None else ratio(cost * NANO_PER_USD),
            "display": show_usd(cost),
            "unit": "usd",
            "reason": _code(card.usd_per_task_reason),
        },
        "unfinished_spend": _spend(card),
        "noise": {
            "rerun_same_tasks": _chance(card.noise.rerun, card.noise.rerun_reason),
            "other_tasks": _chance(card.noise.other_tasks, card.noise.other_tasks_reason),
            "minimum_detectable_difference": _chance(card.noise.detectable, card.noise.detectable_reason),
        },
        "do_nothing_floor": _points(
            card.do_nothing_floor, Missing.NOT_MEASURED if card.do_nothing_floor is None else None
        ),
    }


def _points(value: Fraction | None, reason: Missing | None) -> dict[str, Any]:
    return {
        "exact": None if value is None else ratio(value),
        "display": show_points(value),
        "unit": "points",
        "reason": _code(reason),
    }


def _interval(interval: EffectiveWilson | None, reason: Missing | None) -> dict[str, Any]:
    return {
        "low": None if interval is None else show_bound(interval.interval.low),
        "high": None if interval is None else show_bound(interval.interval.high),
        "level": ratio(LEVEL),
        "n_effective": None if interval is None else ratio(interval.n_effective),
        "unit": "points",
        "reason": _code(reason),
    }


def _chance(value: float | None, reason: Missing | None) -> dict[str, Any]:
    shown = None if value is None else fixed(Fraction(value), 1)
    return {"display": shown, "unit": "points", "reason": _code(reason)}


def _spend(card: PackScoreCard) -> dict[str, Any]:
    nusd = card.unfinished_spend_nusd
    return {
        "nano_usd": None if nusd is None else str(nusd),
        "display": show_usd(None if nusd is None else usd(nusd)),
        "unit": "usd",
        "reason": _code(card.unfinished_spend_reason),
    }


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "recorded": counts.recorded,
        "unfinished": counts.unfinished,
        "unfinished_by_kind": _kinds(counts.unfinished_by_kind),
        "no_verdict": counts.no_verdict,
        "could_not_be_counted": counts.could_not_be_counted,
        "could_not_be_counted_by_kind": _kinds(counts.could_not_be_counted_by_kind),
        "left_out_certificate": counts.left_out_certificate,
        "passes_without_certificate": counts.passes_without_certificate,
        "simulated": counts.simulated,
        "non_public": counts.non_public,
    }


def _kinds(kinds: Kinds) -> list[dict[str, Any]]:
    return [{"kind": kind, "count": count} for kind, count in kinds]


def _task(task: TaskTally) -> dict[str, Any]:
    return {
        "task": task.task_id,
        "planned": task.planned,
        "slots": task.slots,
        "counted": task.counted,
        "passes": task.passes,
        "unfinished": task.unfinished,
        "could_not_be_counted": task.could_not_be_counted,
        "left_out": task.left_out,
        "share": None if task.share is None else ratio(task.share),
    }


def _code(reason: Missing | None) -> str | None:
    return None if reason is None else reason.value
