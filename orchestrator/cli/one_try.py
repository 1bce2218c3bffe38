"""`assize try`: why a try ended as it did, every attempt, and the evidence itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from orchestrator.cli.evidence_files import Found, Wanted, print_files, read_manifest, trouble_of
from orchestrator.cli.ledger_listing import bundles_of_try, is_interruption
from orchestrator.cli.output import (
    DASH,
    call_of,
    cell,
    dash,
    dollars,
    duration,
    emit,
    facts,
    json_option,
    size,
    table,
)
from orchestrator.cli.output import when as shown_time
from orchestrator.cli.reading import Reading, reading
from orchestrator.cli.serial import attempt_data, visibility_of
from orchestrator.cli.words import MARK, in_words, sentence
from orchestrator.errors import NotFoundError, UsageError
from orchestrator.evidence.claims import differing, sentences
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.screenings.claimed import claims_in
from scoring.vocabulary import Outcome

SCHEMA: Final = "assize.try/1"
_DIGITS: Final = 16


@click.command(
    "try",
    short_help="One try with every attempt and its evidence.",
    epilog="Next: assize verify BUNDLE, assize try TRY --diff.",
)
@click.argument("try_id", metavar="TRY")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="This attempt. [default: the newest]")
@click.option("--transcript", is_flag=True, help="Print what the agent did and printed.")
@click.option("--diff", is_flag=True, help="Print what the agent changed.")
@click.option("--grader", is_flag=True, help="Print what the grader printed and wrote.")
@click.option("--observations", is_flag=True, help="Print the observations that decided.")
@click.option("--report", is_flag=True, help="Print the sandbox report.")
@click.option("--file", "file", metavar="PATH", help="Print this file of the evidence.")
@click.option("--raw", is_flag=True, help="Print the very bytes, control characters included.")
@json_option
@click.pass_context
def command(context: click.Context, /, try_id: str, attempt: int | None, as_json: bool, **asked: Any) -> None:
    """Show TRY (an id or its unique beginning): outcome, reason and what decided, then the attempts.

    Evidence is hashed again while it is read; control characters in it are made visible.

    \b
    Examples:
      assize try 01JAB4
      assize try 01JAB4 --attempt 1 --diff
    """
    wanted = Wanted.of(asked)
    if asked["raw"] and (wanted is None or as_json):
        raise UsageError("--raw prints evidence: add --diff, --grader or another file option, without --json")
    with reading(context) as found:
        ledger, slot_id = found.find(queries.find_try, "try", try_id)
        data = _data(found, ledger, slot_id)
    chosen = _choose(data, attempt)
    manifest = read_manifest(found.home, chosen["manifest"])
    if wanted is not None:
        place = f"attempt {chosen['number']} of try {data['try']}"
        print_files(manifest, wanted, place, raw=asked["raw"], as_json=as_json)
    elif as_json:
        shown = {"shown_attempt": chosen["number"], "evidence": manifest.as_data()}
        beside = {"trouble": trouble_of(manifest), "agent_claims": _claims_data(manifest)}
        emit(SCHEMA, {**data, **shown, **beside})
    else:
        _show(data, chosen, manifest, call_of(context))


def _data(found: Reading, ledger: Ledger, slot_id: str) -> dict[str, Any]:
    view = queries.show_try(ledger, slot_id)
    row, screening = view.row, queries.screening(ledger, view.row["screening_id"])
    bundles = bundles_of_try(ledger, slot_id)
    paths = {key: str(found.home.root / path) if path else None for key, path in bundles.items()}
    return {
        "try": slot_id,
        "screening": row["screening_id"],
        "agent": f"{screening['agent_id']}@{screening['agent_version']}",
        "pack": f"{screening['pack_id']}@{screening['pack_version']}",
        "task": row["task_id"],
        "k": row["k"],
        "of": screening["conditions"].get("tries"),
        "simulated": screening["conditions"].get("rehearsal_digest") is not None,
        "visibility": visibility_of(screening),
        "state": row["state"],
        "outcome": row["outcome"],
        "reason": row["reason"],
        "reruns": row["reruns"],
        "interruptions": row["interruptions"],
        "attempts": [attempt_data(one, paths.get(one.row["id"])) for one in view.attempts],
    }


_NO_ATTEMPT: Final[Mapping[str, Any]] = {"number": None, "manifest": None, "rule": None, "decided_by": {}}


def _choose(data: Mapping[str, Any], number: int | None) -> Mapping[str, Any]:
    """The attempt asked for, the newest by default; an interrupted run never stands for its number."""
    attempts: list[dict[str, Any]] = data["attempts"]
    if number is None:
        return attempts[-1] if attempts else _NO_ATTEMPT
    fitting = [one for one in attempts if one["number"] == number]
    if not fitting:
        known = ", ".join(str(one["number"]) for one in attempts) or "none yet"
        raise NotFoundError(f"try {data['try']} has no attempt {number}", hint=f"its attempts: {known}")
    return fitting[-1]


def _show(data: Mapping[str, Any], chosen: Mapping[str, Any], manifest: Found, call: str) -> None:
    of = "" if data["of"] is None else f" of {data['of']}"
    mark = MARK.get(data["outcome"] or "", "·")
    head = in_words(data["outcome"], data["reason"]) if data["outcome"] else data["state"]
    click.echo(cell(f"{mark} {head}  {data['pack']} {data['task']} try {data['k']}{of}, {data['agent']}"))
    rows = []
    if text := sentence(data["reason"]):
        rows.append(("because", text))
    if trouble := trouble_of(manifest):
        rows.append(("in detail", cell(trouble)))
    if data["simulated"]:
        rows.append(("simulated", "a rehearsal with scripted answers: it never counts as a pass"))
    if data["visibility"] == "private":
        rows.append(("private", "no certificate, no score: this is judged on the sandbox evidence alone"))
    rows.append(("decided by", _decision(chosen)))
    if chosen["number"] is not None:
        rows.append(("attempt", _attempt_facts(chosen, len(data["attempts"]))))
        if chosen["model_calls"] is not None:
            rows.append(("model calls", _model_calls(**chosen["model_calls"])))
        if said := claims_in(manifest.store, manifest.files):
            apart = sentences(*said)
            told = "other figures than the record; " + "; ".join(apart) if apart else "as metered"
            rows.append(("claims", told))
    rows.append(("screening", data["screening"]))
    for line in facts(rows):
        click.echo(line)
    if not data["attempts"]:
        click.echo("No attempt yet.")
        return
    click.echo()
    _show_attempts(data["attempts"])
    click.echo()
    _show_evidence(chosen, manifest)
    click.echo(f"next: {_next(data, chosen, call)}")


def _claims_data(manifest: Found) -> dict[str, Any] | None:
    said = claims_in(manifest.store, manifest.files)
    if said is None:
        return None
    claimed, record = said
    return {"claimed": claimed.as_data(), "record": record.as_data(), "differs": list(differing(*said))}


def _decision(attempt: Mapping[str, Any]) -> str:
    if attempt["rule"] is None:
        return DASH
    facts_ = ", ".join(f"{name}={_value(value)}" for name, value in attempt["decided_by"].items())
    return f"rule {attempt['rule']}: {facts_ or DASH}{_doubt(attempt)}"


def _doubt(attempt: Mapping[str, Any]) -> str:
    if not attempt["suspect"]:
        return ""
    if attempt["outcome"] == Outcome.FAILED:
        return "; for review: the same doubtful end came on another worker before"
    return "; suspect: the facts allow the agent as the cause too"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "not observed" if value is None else str(value)


def _attempt_facts(attempt: Mapping[str, Any], total: int) -> str:
    checks = ""
    if attempt["checks_total"] is not None:
        checks = f", checks {dash(attempt['checks_passed'])} of {attempt['checks_total']}"
    return (
        f"{attempt['number']} ({total} in all), phase {attempt['phase']}, reward {dash(attempt['reward'])}"
        f"{checks}, wall {duration(attempt['wall_ms'])}, spend {_spend(attempt)}"
    )


def _spend(attempt: Mapping[str, Any]) -> str:
    paid = [f"{dollars(int(one['nusd']))} by the {one['payer']}" for one in attempt["spend"]]
    return ", ".join(paid) or f"{DASH} (nothing metered)"


def _model_calls(taken: int, first_ms: int | None) -> str:
    if first_ms is None:
        return "none: the agent never reached the relay"
    return f"{taken} taken by a provider, the first asked for after {duration(first_ms)}"


def _show_attempts(attempts: list[dict[str, Any]]) -> None:
    rows = [
        (
            str(one["number"]),
            "interrupted" if is_interruption(one["reason"]) else one["state"],
            dash(one["outcome"]),
            dash(one["reason"]),
            dash(one["reward"]),
            duration(one["wall_ms"]),
            shown_time(one["claimed_ms"]),
            shown_time(one["ended_ms"]),
            (one["certificate"] or DASH)[:_DIGITS],
        )
        for one in attempts
    ]
    names = ("attempt", "state", "outcome", "reason", "reward", "wall", "started", "ended", "certificate")
    table(names, rows)
    for one in attempts:
        if one["bundle"]:
            click.echo(cell(f"bundle of attempt {one['number']}: {one['bundle']}"))


def _show_evidence(chosen: Mapping[str, Any], manifest: Found) -> None:
    if manifest.problem is not None:
        click.echo(cell(f"evidence of attempt {chosen['number']}: {manifest.problem}"))
        return
    click.echo(f"evidence of attempt {chosen['number']}, manifest {chosen['manifest'][:_DIGITS]}")
    rows = [
        (
            f"  {file.path}",
            file.role.value,
            size(file.size),
            "withheld (salted digest only)" if file.sha256 is None else file.sha256[:_DIGITS],
        )
        for file in manifest.files
    ]
    table(("  file", "role", "size", "sha256"), rows)


def _next(data: Mapping[str, Any], chosen: Mapping[str, Any], call: str) -> str:
    option = "--grader" if data["outcome"] == "failed" else "--diff"
    commands = [f"{call} try {data['try']} {option}"]
    if chosen["bundle"]:
        commands.append(f"{call} verify {chosen['bundle']}")
    return ", ".join(commands)
