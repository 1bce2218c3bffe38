"""A comparison for a person: the task table, what was tested, and one sentence (UI-40, S4-34, S4-35)."""

from __future__ import annotations

from fractions import Fraction

from orchestrator.cli.output import DASH, cell, table_lines
from orchestrator.ledger.starts import hours_text
from orchestrator.screenings.comparing import Compared, ComparedScreening
from scoring.comparison import Comparison, PairedTask, TaskCounts, show_p
from scoring.numbers import points, show_points

_WIDTH = 22


def _row(name: str, text: str) -> str:
    return cell(f"  {name:<{_WIDTH}} {text}")


def _counts(one: TaskCounts | None) -> str:
    """`2/3`, with the slots that could not be counted named."""
    if one is None:
        return DASH
    lost = one.slots - one.counted
    return f"{one.passes}/{one.counted}" + (f" ({lost} not counted)" if lost else "")


def _difference(value: Fraction | None) -> str:
    if value is None:
        return DASH
    return ("+" if value > 0 else "") + show_points(points(value))


def _task(one: PairedTask) -> tuple[str, str, str, str]:
    return one.task, _counts(one.a), _counts(one.b), _difference(one.difference)


def _screening(letter: str, name: str, one: ComparedScreening) -> str:
    card = one.scored.card
    score = f"Pack Score {show_points(card.pack_score)}, floor {show_points(card.floor)}"
    notes = "" if one.scored.closed else ", still open"
    notes += (
        "" if one.holds else f", does not verify in full: {', '.join(one.scored.handover.result.reasons)}"
    )
    return _row(letter, f"{name}  {one.screening_id}  {score}{notes}")


def _tested(made: Comparison) -> list[str]:
    out = [
        _row("difference A - B", f"{_difference(made.difference)} points over {made.paired} tasks"),
        _row("exact sign-flip test", f"p = {show_p(made.p_value)}"),
    ]
    if made.worst_case != made.difference:
        out.append(_row("against the leader", f"p = {show_p(made.p_worst_case)}, every uncounted slot"))
    return out


def comparison_lines(found: Compared) -> list[str]:
    """The page of `assize compare`. When the screenings are not comparable the counts stand alone, with the
    reasons and without any test."""
    made, card = found.comparison, found.a.scored.card
    lines = [cell(f"Compare  {card.key.pack_id}@{card.key.pack_version}  by counts of {made.a.methodology}")]
    lines += [_screening("A", made.a.name, found.a), _screening("B", made.b.name, found.b), ""]
    headers = ("task", "A", "B", "A - B")
    lines += ["  " + line for line in table_lines(headers, [_task(one) for one in made.tasks])]
    lines.append("")
    if made.comparable:
        lines += [_row("comparable", "yes"), *(_tested(made) if made.difference is not None else [])]
    else:
        lines.append(_row("comparable", "no; the counts above are left out of any conclusion"))
    lines += [_row("", one.text) for one in made.reasons]
    lines += [
        _row(f"starts of {name}", hours_text(one.hours)) for name, one in (("A", found.a), ("B", found.b))
    ]
    if made.comparable:
        lines.append(_row("conclusion", made.sentence))
    if made.noise_sentence is not None:
        lines.append(_row("noise", made.noise_sentence))
    lines.append(_row("methodology", f"{made.methodology}; inputs {made.inputs_digest[:16]}"))
    return lines
