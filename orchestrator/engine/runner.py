"""One claimed attempt from order to record: the same steps for every engine."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlalchemy.exc import DBAPIError, OperationalError

from orchestrator.attempts import AttemptCancelledError, AttemptReport
from orchestrator.engine.base import Callbacks, Ended, Refused, Salvage, Settings, Stop, Voided
from orchestrator.engine.control import Control
from orchestrator.errors import AssizeError
from orchestrator.faults import decide
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.transitions import Answer, AttemptEnd, Claim, end_attempt, stop_attempt
from orchestrator.observations import Observations
from scoring.vocabulary import Outcome, Phase

_logger = logging.getLogger(__name__)

Result = Ended | Voided | Refused


def run_attempt(ledger: Ledger, callbacks: Callbacks, settings: Settings, control: Control) -> Result:
    """Run the attempt that `control` belongs to and record its end; returns what became of it.

    Whatever the attempt function raises is turned into a platform fault of the phase it was in. Errors of
    the ledger itself are raised.
    """
    held = control.held
    failure: Exception | None = None
    try:
        report = callbacks.attempt(callbacks.order_for(held), control)
    except AttemptCancelledError as stopped:
        if control.why in (Stop.OPERATOR, Stop.SCREENING):
            return _persistently(lambda: _stopped(ledger, callbacks, held), settings.persist_ms)
        if control.why is Stop.TOKEN:
            return Refused(held)
        failure = stopped
    except AssizeError as error:
        _logger.warning("attempt %s: %s", held.attempt_id, error)
        failure = error
    except Exception as error:
        _logger.exception("attempt %s failed in phase %s", held.attempt_id, control.current)
        failure = error
    if failure is None:
        nusd = callbacks.metered(held) if report.spent_nusd is None else report.spent_nusd
        end = end_of(report, nusd)
    else:
        name = type(failure).__name__ if control.why is not Stop.DEADLINE else "DeadlinePassed"
        end = _end_of_failure(callbacks, control, name, str(failure))
    back_off_ms = settings.back_off_ms
    return _persistently(lambda: finish(ledger, held, end, back_off_ms=back_off_ms), settings.persist_ms)


def _persistently(record: Callable[[], Result], persist_ms: int) -> Result:
    """Record a paid attempt although the database is away for a while: ends are safe to repeat.

    The heartbeat goes on meanwhile; if the lease is lost, the token refuses the record.
    """
    while True:
        try:
            return record()
        except DBAPIError as error:
            if not persist_ms or not (isinstance(error, OperationalError) or error.connection_invalidated):
                raise
            _logger.warning("an end is not recorded yet: %s", error.orig)
            time.sleep(persist_ms / 1000)


def end_of(report: AttemptReport, nusd: int | None) -> AttemptEnd:
    """A worker's report as the ledger keeps it."""
    decision = report.decision
    details: dict[str, Any] = {
        "observations": dict(report.observations),
        "evidence": list(decision.evidence),
        "gradings": list(report.gradings),
        "phases": [{"phase": time.phase, "wall_ms": time.wall_ms} for time in report.phases],
    }
    return AttemptEnd(
        outcome=decision.outcome,
        reason=decision.reason,
        phase=decision.phase,
        rule=decision.rule,
        suspect=decision.suspect,
        manifest_digest=report.manifest_digest,
        nusd=nusd,
        reward=report.reward,
        checks_passed=report.checks_passed,
        checks_total=report.checks_total,
        wall_ms=report.wall_ms,
        handed_off_ms=report.handed_off_unix_ms,
        finished_ms=report.finished_unix_ms,
        runtime=report.runtime,
        details=details,
    )


def end_of_salvage(found: Salvage, nusd: int | None, error: str | None = None) -> AttemptEnd:
    """The end of an attempt that gave no report: the fault rules decide on what the host shows.

    Without evidence nobody is convicted: `host_shows_overrun` and `suspect_elsewhere` count only with a
    manifest.
    """
    seen = found.observations
    if found.manifest_digest is None:
        seen = replace(seen, host_shows_overrun=False, suspect_elsewhere=False)
    decision = decide(seen)
    details: dict[str, Any] = {
        "observations": seen.as_data(),
        "evidence": list(decision.evidence),
        "phases": [],
    }
    if error:
        details["error"] = error[:500]
    return AttemptEnd(
        outcome=decision.outcome,
        reason=decision.reason,
        phase=decision.phase,
        rule=decision.rule,
        suspect=decision.suspect,
        manifest_digest=found.manifest_digest,
        nusd=nusd,
        details=details,
    )


def _end_of_failure(callbacks: Callbacks, control: Control, name: str, message: str) -> AttemptEnd:
    seen = Observations(
        agent_started=control.current is not Phase.PREPARE,
        engine_error=name,
        engine_error_phase=control.current,
    )
    found = callbacks.salvage(control.held, seen)
    # Salvage may add evidence, not explain the failure away.
    kept = replace(found.observations, engine_error=name, engine_error_phase=control.current)
    return end_of_salvage(replace(found, observations=kept), callbacks.metered(control.held), message)


def finish(
    ledger: Ledger,
    held: Claim,
    end: AttemptEnd,
    *,
    back_off_ms: int,
    who: str | None = None,
    lost: bool = False,
    if_lease_until_ms: int | None = None,
) -> Result:
    """Record `end` and say what became of the slot; `Refused` too when its worker renewed the lease."""
    answer = end_attempt(
        ledger, held, end, who=who, back_off_ms=back_off_ms, if_lease_until_ms=if_lease_until_ms
    )
    if answer in (Answer.REFUSED, Answer.LEASE_RENEWED):
        return Refused(held)
    if end.outcome in (Outcome.PASSED, Outcome.FAILED):
        return Ended(held, end.outcome, end.reason, end.wall_ms)
    return Voided(held, end.outcome, end.reason, answer is Answer.REQUEUED, lost)


def _stopped(ledger: Ledger, callbacks: Callbacks, held: Claim) -> Result:
    answer = stop_attempt(ledger, held, who=held.owner_id, nusd=callbacks.metered(held))
    if answer is Answer.REFUSED:
        return Refused(held)
    return Voided(held, None, "operator_cancelled", answer is Answer.REQUEUED)
