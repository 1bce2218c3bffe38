"""`assize doctor`: what this machine and this home lack, and how to mend it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Final

import click

from orchestrator.cli import doctor_home, doctor_host, doctor_keys, doctor_models, exits
from orchestrator.cli.findings import Finding, Health, broken, ok
from orchestrator.cli.ledger_listing import last_event_ms
from orchestrator.cli.output import cell, emit, json_option, table
from orchestrator.home import Home

SCHEMA: Final = "assize.doctor/1"
_MARK: Final = {Health.OK: "✓", Health.WARN: "!", Health.MISSING: "✗", Health.BROKEN: "✗"}


@click.command(
    "doctor",
    short_help="What this machine lacks, and how to mend it.",
    epilog="Next: make setup, assize screen coding-core --agent oracle --agent nop.",
)
@click.option(
    "--after-restore",
    is_flag=True,
    help="Only whether ledger, log and evidence belong together; every file is hashed again.",
)
@json_option
@click.pass_context
def command(context: click.Context, after_restore: bool, as_json: bool) -> None:
    """Check engine, images, prices, disk, ledger, evidence, keys and leftovers; nothing is changed.

    Exit 0 when screening can work, 1 when something that blocks it is missing or broken.

    \b
    Examples:
      assize --home ./.assize doctor --json
      assize doctor --after-restore
    """
    home = Home.resolve((context.find_root().obj or {}).get("home"))
    findings = restored(home) if after_restore else examine(home)
    blocking = [finding for finding in findings if finding.blocks]
    if as_json:
        checks = [{**asdict(finding), "blocks": finding.blocks} for finding in findings]
        emit(SCHEMA, {"home": str(home.root), "ready": not blocking, "checks": checks})
    else:
        ready = "ledger, log and evidence belong together" if after_restore else "ready to screen"
        _show(findings, len(blocking), ready)
    context.exit(exits.REFUSED if blocking else exits.DONE)


def examine(home: Home) -> list[Finding]:
    """Every check; a check that fails in an unforeseen way is a finding like any other."""
    client, findings = doctor_host.engine()
    try:
        findings += _guarded("user", lambda: [doctor_host.user()])
        findings += _guarded("base image", lambda: doctor_host.base_image(home, client))
        if client is not None:
            findings += _guarded("abilities", lambda: doctor_host.abilities(home, client))
        findings += _guarded("attempt runner", lambda: [doctor_host.runner()])
        findings += _guarded("price sheet", lambda: [doctor_models.price_sheet()])
        findings += _guarded("relay folders", lambda: [doctor_models.relay_folders()])
        findings += _guarded("disk", lambda: [doctor_host.disk("disk", home.root)])
        folder = _guarded("home", lambda: [doctor_home.folder(home)])
        findings += folder
        if home.root.is_dir() or not folder[0].blocks:
            findings += _guarded("evidence store", lambda: [doctor_home.evidence(home)])
            findings += _guarded("keys", lambda: doctor_keys.keys(home))
            findings += _guarded("providers", lambda: [doctor_models.providers(home)])
            findings += _guarded("log", lambda: doctor_home.logs(home))
            findings += _guarded("ledger", lambda: _with_ledger(home, client))
    finally:
        if client is not None:
            client.close()
    return findings


def _with_ledger(home: Home, client: object | None) -> list[Finding]:
    with doctor_home.ledger(home) as (opened, findings):
        newest = None
        if opened is not None:
            findings += doctor_home.ledger_invariants(opened)
            findings += doctor_home.relay_keys(home, opened)
            newest = last_event_ms(opened)
        findings.append(doctor_home.leftovers(home, opened, client))
    return [*findings, doctor_host.clock(newest)]


def _guarded(check: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - doctor must tell what is wrong, not die of it
        return [
            broken(check, doctor_host.problem(error), "mend what the message names, then run doctor again")
        ]


def restored(home: Home) -> list[Finding]:
    """The checks after a restore: the schema, then ledger, log and evidence against each other."""
    from orchestrator.backups.consistency import mismatches

    def look() -> list[Finding]:
        with doctor_home.ledger(home) as (opened, findings):
            if opened is None:
                return [
                    *findings,
                    broken("restore", "there is no ledger to compare with", "assize db restore DIR"),
                ]
            found = mismatches(home, opened)
            findings += [broken(one.check, one.message, one.mend) for one in found]
        return (
            findings
            if found
            else [*findings, ok("restore", "every certificate is logged, all evidence is there")]
        )

    return _guarded("restore", look)


def _show(findings: list[Finding], blocking: int, ready: str) -> None:
    rows = [(f"{_MARK[one.health]} {one.health.value}", one.check, one.detail) for one in findings]
    table(("status", "check", "found"), rows)
    for one in findings:
        if one.mend is not None:
            click.echo(cell(f"mend {one.check}: {one.mend}"))
    click.echo(f"{blocking} of {len(findings)} checks stop a screening" if blocking else ready)
