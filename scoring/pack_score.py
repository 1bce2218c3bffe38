"""`pack-score/1`: how often one agent finishes the tasks of one named benchmark (Benchmark Packs).

Pack Score = 100 x pass^1 = 100 x mean over scored tasks of passes / counted tries (S3-23). Beside it stand
an interval, a floor and a ceiling over all planned slots, pass^3, cost, counts and labels. A pure function
of the plan, the verified tries and the view; figures that cannot be given are None with a reason code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from scoring.classify import View
from scoring.errors import MalformedInputError
from scoring.inputs import inputs_digest
from scoring.intervals import EffectiveWilson, effective_wilson
from scoring.noise import harmonic_mean, minimum_detectable_difference, rerun_half_width
from scoring.numbers import POINTS, points, usd
from scoring.pack_card import (
    EVERY_TRY,
    METHODOLOGY,
    Figure,
    Key,
    Labels,
    Missing,
    Noise,
    PackScoreCard,
    PartialCause,
    Status,
)
from scoring.pack_tally import Spend, Tally, TaskTally, tally
from scoring.passk import mean, pass_hat_k
from scoring.tries import Plan, VerifiedTry

__all__ = ["METHODOLOGY", "PackScoreCard", "score_pack"]


def score_pack(
    plan: Plan,
    tries: Sequence[VerifiedTry],
    *,
    view: View,
    do_nothing_floor: Fraction | None,
) -> PackScoreCard:
    """Score one screening (S3-1 .. S3-41, ST-3, ST-5, section 6 rule b).

    `do_nothing_floor` is the Pack Score, in points, of the agent that does nothing on this pack version,
    None when it was not measured. The order of `tries` has no effect. Raises `MalformedInputError`:
    `duplicate-slot`, `unplanned-slot`, `foreign-screening`, `foreign-pack`, `foreign-agent`,
    `duplicate-certificate`, `not-a-verified-try`, `do-nothing-floor`, `view`.
    """
    _check_arguments(view, do_nothing_floor)
    counted = tally(plan, tries, view)
    status, missing = _status(counted)
    scored = [task for task in counted.tasks if task.counted]
    interval = None if missing else _interval(scored)
    score, pass3 = _pass1(scored, missing), _pass3(scored, missing)
    cost, unfinished = _mean_cost(counted.finished_spend, missing), _dash(counted.unfinished_spend)
    return PackScoreCard(
        key=_key(plan),
        view=view,
        status=status,
        pack_score=score.value,
        pack_score_reason=score.reason,
        interval=interval,
        interval_reason=missing or (None if interval else Missing.ONE_TASK),
        floor=None if missing else _over_pack([task.floor for task in counted.tasks]),
        ceiling=None if missing else _over_pack([task.ceiling for task in counted.tasks]),
        pass3=pass3.value,
        pass3_reason=pass3.reason,
        tasks_scored=len(scored),
        tasks_in_pack=len(counted.tasks),
        tries_min=min((task.counted for task in scored), default=None),
        tries_max=max((task.counted for task in scored), default=None),
        declared_tries=plan.declared_tries,
        counts=counted.counts,
        labels=_labels(plan, counted, scored),
        usd_per_task=cost.value,
        usd_per_task_reason=cost.reason,
        finished_spend=counted.finished_spend,
        unfinished_spend_nusd=None if unfinished else counted.unfinished_spend.nusd,
        unfinished_spend_reason=unfinished,
        noise=_noise(scored, missing, interval),
        do_nothing_floor=do_nothing_floor,
        tasks=counted.tasks,
        certificate_digests=_certificates(counted.visible),
        inputs_digest=inputs_digest(plan, counted.visible, view=view, do_nothing_floor=do_nothing_floor),
    )


def _check_arguments(view: object, do_nothing_floor: object) -> None:
    if not isinstance(view, View):
        raise MalformedInputError("view", f"{view!r:.40} is not a view")
    if do_nothing_floor is None:
        return
    if not isinstance(do_nothing_floor, Fraction) or not 0 <= do_nothing_floor <= POINTS:
        raise MalformedInputError("do-nothing-floor", f"{do_nothing_floor!r:.60} is not exact points 0..100")


def _key(plan: Plan) -> Key:
    return Key(
        screening_id=plan.screening_id,
        agent_id=plan.agent_id,
        agent_digest=plan.agent_digest,
        pack_id=plan.pack_id,
        pack_version=plan.pack_version,
        pack_digest=plan.pack_digest,
        judge=plan.judge,
    )


def _status(counted: Tally) -> tuple[Status, Missing | None]:
    """S3-25 .. S3-28: a score needs one counted try that finished and was verified."""
    if counted.counts.recorded == 0:
        return Status.NO_RESULTS, Missing.NOTHING_RECORDED
    if counted.finished:
        return Status.SCORED, None
    if counted.counts.left_out_certificate:
        return Status.NONE_VERIFIED, Missing.ALL_LEFT_OUT
    if counted.not_evaluable == counted.counts.recorded:
        return Status.NONE_VERIFIED, Missing.NOT_EVALUABLE
    return Status.NONE_VERIFIED, Missing.NONE_VERIFIED


def _certificates(tries: Sequence[VerifiedTry]) -> tuple[str, ...]:
    return tuple(sorted(try_.certificate_digest for try_ in tries if try_.certificate_digest is not None))


def _interval(scored: Sequence[TaskTally]) -> EffectiveWilson | None:
    """ST-3 over the scored tasks; None for a single task, which has no spread."""
    if len(scored) < 2:
        return None
    shares = [Fraction(task.passes, task.counted) for task in scored]
    return effective_wilson(shares, sum(task.counted for task in scored))


def _pass1(scored: Sequence[TaskTally], missing: Missing | None) -> Figure:
    if missing is not None:
        return Figure(None, missing)
    # Equal (passes, counted) pairs are added once, times how often they occur: exact and linear in the tries.
    pairs = Counter((task.passes, task.counted) for task in scored)
    return Figure(points(mean((Fraction(c, n), times) for (c, n), times in pairs.items())), None)


def _pass3(scored: Sequence[TaskTally], missing: Missing | None) -> Figure:
    if missing is not None:
        return Figure(None, missing)
    if any(task.counted < EVERY_TRY for task in scored):
        return Figure(None, Missing.FEWER_THAN_THREE)
    pairs = Counter((task.passes, task.counted) for task in scored)
    return Figure(mean((pass_hat_k(c, n, EVERY_TRY), times) for (c, n), times in pairs.items()), None)


def _over_pack(shares: Sequence[Fraction]) -> Fraction:
    return points(mean(Counter(shares).items()))


def _dash(spend: Spend) -> Missing | None:
    """S3-33, S3-34: one unknown or withheld try is enough."""
    if spend.unmetered:
        return Missing.UNMETERED
    return Missing.WITHHELD if spend.withheld else None


def _mean_cost(spend: Spend, missing: Missing | None) -> Figure:
    reason = missing or _dash(spend)
    return Figure(None, reason) if reason else Figure(usd(Fraction(spend.nusd, spend.tries)), None)


def _labels(plan: Plan, counted: Tally, scored: Sequence[TaskTally]) -> Labels:
    older = not plan.pack_is_current
    if not counted.counts.recorded:  # an empty card carries no verdict on its completeness
        return Labels((), short_screen=False, older_pack_version=older, simulated=False)
    causes = {
        PartialCause.TASKS_UNSCORED: len(scored) < len(counted.tasks),
        PartialCause.TRIES_DIFFER: len({task.counted for task in scored}) > 1,
        PartialCause.COULD_NOT_BE_COUNTED: counted.counts.could_not_be_counted > 0,
    }
    return Labels(
        partial_causes=tuple(cause for cause, holds in causes.items() if holds),
        short_screen=any(task.counted < plan.declared_tries for task in counted.tasks),
        older_pack_version=older,
        simulated=counted.counts.simulated > 0,
    )


def _noise(scored: Sequence[TaskTally], missing: Missing | None, interval: EffectiveWilson | None) -> Noise:
    if missing is not None:
        return Noise(None, missing, None, missing, None, missing)
    one_try = any(task.counted < 2 for task in scored)
    rerun = None if one_try else rerun_half_width([(task.passes, task.counted) for task in scored])
    detectable = minimum_detectable_difference(len(scored), harmonic_mean([task.counted for task in scored]))
    return Noise(
        rerun=None if rerun is None else POINTS * rerun,
        rerun_reason=Missing.ONE_TRY if one_try else None,
        other_tasks=POINTS * interval.interval.half_width if interval else None,
        other_tasks_reason=None if interval else Missing.ONE_TASK,
        detectable=min(float(POINTS), POINTS * detectable),
        detectable_reason=None,
    )
