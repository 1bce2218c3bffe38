"""Whole screenings: nothing suppressed, doubled, repeated or mixed (rows 7, 21-28)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from certificate_builder import Builder
from certificate_world import (
    LOST,
    PASS,
    TASKS,
    WRONG,
    Screening,
    changed,
    digest_of,
    hex_of,
    key,
    payload_of,
    resign,
)

from orchestrator.certificates import bundle, rules

P = "predicate"


def add_screenings(b: Builder) -> None:
    """Rows 21 to 28 at the level of a screening: nothing suppressed, doubled, repeated or mixed."""
    base, tries = b.base, b.base.tries()
    opening, summary = base.opening.envelope, base.summary().envelope

    def pack(name: str, row: int, files: list[bytes], exit_code: int, *codes: str, **more: Any) -> None:
        closing = more.pop("summary", summary)
        raw = bundle.encode_screening(more.pop("opening", opening), files, closing)
        b.add(name, row, "screening", raw, exit_code, *codes, **more)

    def bad_try(name: str, row: int, path: str, value: Any, *codes: str, number: int = 0) -> None:
        """One certificate of the screening edited and signed again; the summary lists the edited one."""
        signed, _ = base.certificates[number]
        envelope = resign(changed(signed.envelope, P, *path.split("."), value))
        files = list(tries)
        files[number] = bundle.encode_try(envelope, signed.manifest or b"")
        closing = payload_of(summary)
        for entry in closing[P]["certificates"]:
            if entry["digest"]["sha256"] == signed.digest:
                entry["digest"] = {"sha256": digest_of(envelope)}
        pack(name, row, files, 1, *codes, "unaccounted", summary=resign(closing))

    other = b.world.screening("other")
    foreign = other.run("alpha", 1, PASS)
    pack(
        "try-of-another-screening",
        21,
        [bundle.encode_try(foreign.envelope, foreign.manifest or b""), *tries[1:]],
        1,
        "screening-mismatch",
        "opening-mismatch",
        "summary-omits",
        "summary-adds",
        "unaccounted",
    )
    bad_try(
        "opening-digest-of-another",
        21,
        "screening.openingDigest",
        {"sha256": hex_of("x")},
        "opening-mismatch",
    )
    bad_try("funder-rewritten", 21, "screening.fundedBy", "publisher:other", "screening-mismatch")
    bad_try("pack-versions-mixed", 26, "pack.version", "2026.10", "mixed")
    bad_try("agents-mixed", 26, "agent.version", "3.2.2", "mixed")
    bad_try("judge-differs", 28, "judge", "gpt-5@2026-01-01", "judge-mismatch")
    bad_try("task-digest-differs", 21, "task.digest", {"sha256": hex_of("y")}, "task-mismatch")
    bad_try("caps-differ", 21, "task.caps.agentWallMs", 700_000, "task-mismatch")
    bad_try("conditions-differ", 21, "conditions.hardwareClass", "c4m8", "conditions-mismatch")
    bad_try("handed-off-before-opening", 7, "time.handedOffAt", "2026-09-21T14:13:19Z", "time-order")
    _add_attempts(b, pack)
    _add_unplanned(b, pack)
    _add_accounting(b, pack)
    _add_summaries(b, pack)
    _add_openings(b, pack)


def _closing(screening: Screening) -> bytes:
    return screening.summary().envelope


def _add_attempts(b: Builder, pack: Callable[..., None]) -> None:
    def screening(name: str) -> Screening:
        shot = b.world.screening(name)
        for task in TASKS:
            for index in (1, 2, 3):
                if (task, index) != ("alpha", 1):
                    shot.run(task, index, PASS)
        return shot

    def close(name: str, row: int, shot: Screening, exit_code: int, *codes: str) -> None:
        pack(
            name, row, shot.tries(), exit_code, *codes, opening=shot.opening.envelope, summary=_closing(shot)
        )

    shot = screening("best-of-many")
    failed = shot.run("alpha", 1, WRONG)
    shot.run("alpha", 1, PASS, attempt=2, replaces=failed.digest)
    close("attempt-2-of-a-failed-try", 23, shot, 1, "replaces")
    shot = screening("replaces-nobody")
    shot.run("alpha", 1, PASS, attempt=2, replaces=hex_of("nobody"))
    close("attempt-2-of-nothing", 23, shot, 1, "unaccounted", "replaces")
    shot = screening("rerun")
    lost = shot.run("alpha", 1, LOST)
    shot.run("alpha", 1, WRONG, attempt=2, replaces=lost.digest)
    close("attempt-2-after-platform-fault", 23, shot, 0)
    shot = screening("lost-for-good")
    lost = shot.run("alpha", 1, LOST)
    again = shot.run("alpha", 1, LOST, attempt=2, replaces=lost.digest)
    shot.run("alpha", 1, LOST, attempt=3, replaces=again.digest)
    close("lost-three-times", 23, shot, 3, "uncountable")
    shot = screening("borrowed")
    lost = shot.run("alpha", 1, LOST)
    del shot.certificates[-1]
    shot.run("alpha", 1, PASS)
    wide = b.world.screening("borrowed")
    wide.certificates = list(shot.certificates)
    wide.run("alpha", 2, PASS, attempt=2, replaces=lost.digest)
    close("attempt-2-with-a-borrowed-fault", 23, wide, 1, "replaces")
    shot = screening("double")
    shot.run("alpha", 1, WRONG)
    shot.run("alpha", 1, PASS)
    close("certified-twice-with-two-ends", 22, shot, 1, "unaccounted", "double")
    shot = screening("simulated")
    shot.run("alpha", 1, PASS, level="simulated")
    close("simulated-try-in-a-screening", 33, shot, 3, "simulated")


def _add_unplanned(b: Builder, pack: Callable[..., None]) -> None:
    extra = b.world.screening("unplanned", tasks=TASKS[:2])
    for task in TASKS[:2]:
        for index in (1, 2, 3):
            extra.run(task, index, PASS)
    more = b.world.screening("unplanned").run("gamma", 1, PASS)
    data = changed(more.envelope, P, "screening", "openingDigest", {"sha256": extra.opening.digest})
    wild = bundle.encode_try(resign(data), more.manifest or b"")
    pack(
        "unplanned-task",
        23,
        [*extra.tries(), wild],
        1,
        "summary-omits",
        "conditions-mismatch",
        "unplanned",
        opening=extra.opening.envelope,
        summary=_closing(extra),
    )


def _add_accounting(b: Builder, pack: Callable[..., None]) -> None:
    shot = b.world.screening("suppressed").usual()
    failed, _ = shot.certificates[1]
    shot.certificates = [pair for pair in shot.certificates if pair[0].digest != failed.digest]
    pack(
        "failed-try-suppressed",
        24,
        shot.tries(),
        4,
        "unaccounted",
        opening=shot.opening.envelope,
        summary=_closing(shot),
    )
    base, tries = b.base, b.base.tries()
    pack("file-removed", 24, tries[:1] + tries[2:], 1, "unaccounted", "summary-adds")
    pack("every-file-removed", 24, [], 1, "unaccounted", "summary-adds")
    pack("passes-only", 24, tries[:1], 1, "unaccounted", "summary-adds")
    pack("not-closed", 24, tries, 4, "summary-missing", summary=None)
    pack("not-closed-and-incomplete", 24, tries[:4], 4, "unaccounted", "summary-missing", summary=None)
    damaged = bundle.encode_try(base.certificates[0][0].envelope[:-9] + b'AAAAA"}]}', b.manifest)
    pack("one-file-damaged", 24, [damaged, *tries[1:]], 1, "unaccounted", "summary-adds", "form")
    pack("same-file-twice", 22, [*tries, tries[0]], 1, "unaccounted", "double")


def _add_summaries(b: Builder, pack: Callable[..., None]) -> None:
    base, tries = b.base, b.base.tries()
    first = base.certificates[0][0]
    genuine = _closing(base)
    without = base.summary(frozenset({first.digest})).envelope
    pack("summary-omits-a-certificate", 24, tries, 1, "summary-omits", summary=without)
    data = payload_of(genuine)
    ghost = {**data[P]["certificates"][0], "attempt": 2, "digest": {"sha256": hex_of("ghost")}}
    data[P]["certificates"].insert(1, ghost)
    pack("summary-adds-a-certificate", 24, tries, 1, "summary-adds", summary=resign(data))
    lying = changed(genuine, P, "certificates", 1, "reason", "timeout")
    pack("summary-tells-another-reason", 24, tries, 1, "summary-mismatch", summary=resign(lying))
    doubled = payload_of(genuine)
    doubled[P]["certificates"].append(doubled[P]["certificates"][0])
    pack("summary-lists-twice", 24, tries, 1, "summary-mismatch", summary=resign(doubled))
    invented = changed(genuine, P, "unrecorded", [{"taskId": "alpha", "index": 1, "why": "cancelled"}])
    pack("summary-unrecorded-but-certified", 24, tries, 1, "summary-mismatch", summary=resign(invented))
    early = changed(
        genuine, P, "time", {"closedAt": "2026-09-21T14:13:20Z", "issuedAt": "2026-09-21T14:13:20Z"}
    )
    pack("summary-before-the-tries", 7, tries, 1, "time-order", summary=resign(early))
    other = b.world.screening("elsewhere").usual()
    pack(
        "summary-of-another-screening",
        21,
        tries,
        1,
        "summary-mismatch",
        "summary-omits",
        "summary-adds",
        summary=_closing(other),
    )
    attacker = resign(payload_of(genuine), key("attacker"))
    pack("summary-by-an-attacker", 3, tries, 1, "no-trusted-key", summary=attacker)


def _add_openings(b: Builder, pack: Callable[..., None]) -> None:
    base, tries = b.base, b.base.tries()
    opening = changed(base.opening.envelope, P, "conditions", "comparability", {"sha256": hex_of("other")})
    pack(
        "opening-comparability-wrong",
        26,
        [],
        1,
        "comparability",
        "unaccounted",
        "summary-missing",
        opening=resign(opening),
        summary=None,
    )
    pack(
        "opening-by-an-attacker",
        3,
        tries,
        1,
        "no-trusted-key",
        opening=resign(payload_of(base.opening.envelope), key("attacker")),
    )
    private = changed(base.opening.envelope, P, "visibility", "private")
    pack("opening-private", 32, tries, 1, "visibility", opening=resign(private))
    double = payload_of(base.opening.envelope)
    double[P]["plan"].append({**double[P]["plan"][0], "taskId": "ALPHA"})
    double[P]["conditions"]["comparability"] = {"sha256": rules.comparability(double[P])}
    pack(
        "opening-tasks-equal-but-for-case",
        17,
        [],
        1,
        "schema",
        "unaccounted",
        "summary-missing",
        opening=resign(double),
        summary=None,
    )
