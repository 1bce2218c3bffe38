"""The arithmetic of every figure of a Pack Score card, as lines of text (`assize score --explain`).

Each line can be redone by hand from the task lines; rounding is named where it happens (UI-3).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from scoring.card_data import as_data, show_bound, status_text
from scoring.numbers import DASH, NANO_PER_USD, fixed, ratio, show_points, show_usd, usd
from scoring.pack_card import EVERY_TRY, Missing, PackScoreCard
from scoring.pack_tally import Kinds
from scoring.passk import pass_hat_k

__all__ = ["as_data", "lines"]

REASON_TEXT = {
    Missing.NOTHING_RECORDED: "nothing is recorded",
    Missing.NONE_VERIFIED: "no counted try finished and was verified",
    Missing.ALL_LEFT_OUT: "every verified pass was left out for its certificate",
    Missing.NOT_EVALUABLE: "the agent could not be installed or started under the published conditions",
    Missing.FEWER_THAN_THREE: "a scored task has fewer than three counted tries",
    Missing.UNMETERED: "the cost of a try in it is unknown",
    Missing.WITHHELD: "a try in it is on a task whose answer key is withheld",
    Missing.ONE_TASK: "fewer than two tasks are scored",
    Missing.ONE_TRY: "a scored task has a single counted try",
    Missing.NOT_MEASURED: "it was not measured for this pack version",
}


def lines(card: PackScoreCard) -> tuple[str, ...]:
    """All lines, in the order of the card."""
    return (
        f"{card.methodology}: {card.key.agent_id} on {card.key.pack_id} {card.key.pack_version}, "
        f"judge {card.key.judge}, {card.view.value} view",
        f"status: {status_text(card)}",
        *_tasks(card),
        *_score(card),
        *_bounds(card),
        *_every_try(card),
        *_cost(card),
        *_counts(card),
        *_labels(card),
        *_noise(card),
        *_sources(card),
    )


def _dash(name: str, reason: Missing | None) -> str:
    return f"{name}: {DASH}" if reason is None else f"{name}: {DASH} ({reason.value}: {REASON_TEXT[reason]})"


def _tasks(card: PackScoreCard) -> list[str]:
    return [
        f"task {task.task_id}: {task.passes} passed of {task.counted} counted"
        + (f" = {ratio(task.share)}" if task.share is not None else ", not scored")
        + f"; {task.planned} planned, {task.slots} slots, {task.unfinished} unfinished, "
        f"{task.could_not_be_counted} could not be counted, {task.left_out} left out for certificate"
        for task in card.tasks
    ]


def _score(card: PackScoreCard) -> list[str]:
    if card.pack_score is None:
        return [_dash("Pack Score (pass^1)", card.pack_score_reason)]
    scored = [task for task in card.tasks if task.counted]
    out = [
        "Pack Score (pass^1) = 100 x mean over scored tasks of passed / counted = "
        f"100 x ({_sum([Fraction(task.passes, task.counted) for task in scored])}) / {len(scored)} = "
        f"{_shown(card.pack_score)}"
    ]
    if card.interval is None:
        return [*out, _dash("95% interval", card.interval_reason)]
    made = card.interval
    return [
        *out,
        f"95% interval = Wilson on effective tries: n_eff = {fixed(made.n_effective, 3)} of "
        f"{sum(task.counted for task in scored)} counted tries on {len(scored)} tasks, times (z/t)^2 = "
        f"{fixed(Fraction(made.n_adjusted), 3)}; {show_bound(made.interval.low)} to "
        f"{show_bound(made.interval.high)} (bounds rounded to one decimal)",
    ]


def _bounds(card: PackScoreCard) -> list[str]:
    if card.floor is None or card.ceiling is None:
        return [_dash("floor", card.pack_score_reason), _dash("ceiling", card.pack_score_reason)]
    return [
        f"floor = 100 x mean over all {card.tasks_in_pack} tasks of passed / slots = "
        f"100 x ({_sum([task.floor for task in card.tasks])}) / {card.tasks_in_pack} = {_shown(card.floor)}",
        f"ceiling = the same with all but counted failures as passes = "
        f"100 x ({_sum([task.ceiling for task in card.tasks])}) / {card.tasks_in_pack} = "
        f"{_shown(card.ceiling)}",
    ]


def _every_try(card: PackScoreCard) -> list[str]:
    name = f"every try passes (pass^{EVERY_TRY})"
    if card.pass3 is None:
        return [_dash(name, card.pass3_reason)]
    values = [pass_hat_k(task.passes, task.counted, EVERY_TRY) for task in card.tasks if task.counted]
    return [
        f"{name} = mean over scored tasks of C(passed,{EVERY_TRY})/C(counted,{EVERY_TRY}) = "
        f"({_sum(values)}) / {len(values)} = {ratio(card.pass3)}, shown {fixed(card.pass3 * 100, 1)}%"
    ]


def _cost(card: PackScoreCard) -> list[str]:
    spent = card.finished_spend
    if card.usd_per_task is None:
        out = [_dash("USD per task", card.usd_per_task_reason)]
    else:
        out = [
            f"USD per task = {spent.nusd} nano-USD / {NANO_PER_USD} / {spent.tries} finished counted tries = "
            f"{ratio(card.usd_per_task)}, shown {show_usd(card.usd_per_task)}"
        ]
    if card.unfinished_spend_nusd is None:
        return [*out, _dash("unfinished spend", card.unfinished_spend_reason)]
    return [
        *out,
        f"unfinished spend = {card.unfinished_spend_nusd} nano-USD over {card.counts.unfinished} unfinished "
        f"tries, shown {show_usd(usd(card.unfinished_spend_nusd))}",
    ]


def _counts(card: PackScoreCard) -> list[str]:
    counts = card.counts
    tries = DASH if card.tries_min is None else f"{card.tries_min} to {card.tries_max}"
    out = [
        f"scored {card.tasks_scored} of {card.tasks_in_pack} tasks; counted tries per scored task: {tries}; "
        f"declared: {card.declared_tries}; recorded: {counts.recorded}",
        f"did not finish, counted as failures: {counts.unfinished}{_split(counts.unfinished_by_kind)}",
        f"no verdict, counted as failures: {counts.no_verdict}",
        f"could not be counted: {counts.could_not_be_counted}{_split(counts.could_not_be_counted_by_kind)}",
        f"passing tries left out for their certificate: {counts.left_out_certificate}",
        f"passing tries without a certificate: {counts.passes_without_certificate}",
        f"tries that read as simulated: {counts.simulated}",
    ]
    if card.includes_non_public:
        out.append(f"this view includes {counts.non_public} tries that are not public")
    return out


def _labels(card: PackScoreCard) -> list[str]:
    labels = card.labels
    out = []
    if labels.partial_screen:
        out.append("label Partial screen: " + ", ".join(cause.value for cause in labels.partial_causes))
    if labels.short_screen:
        out.append(f"label Short screen: a task has fewer than {card.declared_tries} counted tries")
    if labels.older_pack_version:
        out.append(f"label Older pack version: {card.key.pack_version} is no longer current")
    if labels.simulated:
        out.append("label Simulated: a try was not verified in the sandbox")
    return out


def _noise(card: PackScoreCard) -> list[str]:
    noise = card.noise
    return [
        _dash("re-run noise, same tasks", noise.rerun_reason)
        if noise.rerun is None
        else f"re-run noise, same tasks = 1.96 standard errors within tasks: +-{_float(noise.rerun)} points",
        _dash("noise, other tasks", noise.other_tasks_reason)
        if noise.other_tasks is None
        else f"noise, other tasks = half of the 95% interval: +-{_float(noise.other_tasks)} points",
        _dash("minimum detectable difference", noise.detectable_reason)
        if noise.detectable is None
        else f"differences under {_float(noise.detectable)} points cannot be told apart here "
        "((z.975 + z.80) x sqrt((1/9 + 2/6/K)/G), K tries, G tasks)",
    ]


def _sources(card: PackScoreCard) -> list[str]:
    floor = card.do_nothing_floor
    return [
        _dash("do-nothing floor of the pack", Missing.NOT_MEASURED)
        if floor is None
        else f"do-nothing floor of the pack = {_shown(floor)}",
        f"inputs: digest {card.inputs_digest}, pack {card.key.pack_digest}, agent {card.key.agent_digest}, "
        f"{len(card.certificate_digests)} certificates",
        *(f"reading {r.code} ({r.requirement}): {r.text}" for r in card.readings),
    ]


def _sum(values: Sequence[Fraction]) -> str:
    return " + ".join(str(value) for value in values)


def _shown(value: Fraction) -> str:
    return f"{ratio(value)}, shown {show_points(value)}"


def _float(value: float) -> str:
    return fixed(Fraction(value), 1)


def _split(kinds: Kinds) -> str:
    return "" if not kinds else " (" + ", ".join(f"{kind} {count}" for kind, count in kinds) + ")"
