"""What notices change, and what they never do: raise a score, speak for a key, hide in a log."""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator import handover
from orchestrator.certificates import bundle, notice_statement, report, rules, schema, trust
from orchestrator.certificates.audit import audit_log
from orchestrator.certificates.audit_report import audit_text
from orchestrator.certificates.errors import SigningRefusedError
from orchestrator.certificates.notices import Notice, Published
from orchestrator.certificates.published import PublishedNotices
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.certificates.signer import FileSigner
from orchestrator.certificates.trust import TrustRoot
from orchestrator.certificates.verify import verify_try_bundle
from scoring.classify import View
from scoring.pack_card import PackScoreCard
from scoring.pack_score import score_pack
from scoring.tries import CertificateState
from scoring.vocabulary import Outcome

VOIDING = ("supersession", "contamination")


class Told:
    """A published log in memory: notices that hold, at the end of a log of 100."""

    def __init__(self, *notices: Notice) -> None:
        self.notices = notices

    def read(self, trust: TrustRoot, origin: str, start: int) -> Published:
        """All of them."""
        return Published({origin: 100}, self.notices)


def notice(kind: str, subject: str, about: str, index: int = 90) -> Notice:
    return Notice(
        digest=f"{index:064d}",
        kind=kind,
        subject=subject,
        about=about,
        reason="told",
        issued_at="2026-09-23T00:00:00Z",
        screening=None,
        place="",
        replaced_by=None,
        index=index,
        log="assize.example/test-lab/log/2026",
    )


@pytest.fixture
def logged(lab: ModuleType) -> trust.TrustRoot:
    """The lab's trust root with its log."""
    return trust.parse(lab.trust_root(logged=True))


def taken(files: bundle.ScreeningFiles, root: trust.TrustRoot, *notices: Notice) -> handover.Handover:
    return handover.from_files(files, root, pack_is_current=True, published=Told(*notices))


def card_of(given: handover.Handover) -> PackScoreCard:
    return score_pack(given.plan, given.tries, view=View.PUBLIC, do_nothing_floor=None)


def packed(
    shot: Any, lab_log: ModuleType, root: trust.TrustRoot, notices: Sequence[bytes] = (), fill: int = 3
) -> Any:
    """The screening in a log with notices behind it: the log, and the bundle that lists them all."""
    log = lab_log.Log(root).fill(fill)
    envelopes = [signed.envelope for signed, _ in shot.certificates]
    closing = shot.summary().envelope
    log.enter(shot.opening.envelope, *envelopes, closing, *notices)
    listed = tuple(bundle.ListedNotice(one, log.prove(one)) for one in notices)
    proofs = log.shared(shot.opening.envelope, envelopes, closing)
    found = bundle.NoticeList(len(log.items), listed)
    return log, bundle.encode_screening(shot.opening.envelope, shot.tries(), closing, proofs, found)


@pytest.fixture
def lab_log(generator: ModuleType) -> ModuleType:
    """The module with the log in memory."""
    return importlib.import_module("certificate_log")


def test_a_withdrawn_pass_is_left_out_and_a_withdrawn_failure_stays(
    world: Any, logged: trust.TrustRoot, lab_log: ModuleType
) -> None:
    """Seed 003: a pass without a certificate that holds is left out; leaving out never raises a score."""
    shot = world.screening().usual()
    files = bundle.decode_screening(packed(shot, lab_log, logged, [shot.noticed(0), shot.noticed(1)])[1])
    given = handover.from_files(files, logged, pack_is_current=True)
    first, second, third = given.tries[:3]
    assert (first.outcome, first.certificate) == (Outcome.PASSED, CertificateState.INVALID)
    assert first.cost_nusd is None, "nothing is taken from a claim that was withdrawn"
    assert (second.outcome, second.certificate) == (Outcome.FAILED, CertificateState.VALID)
    assert third.certificate is CertificateState.VALID
    assert (given.result.accounting.passed, given.result.accounting.noticed) == (5, 1)
    assert given.result.exit_code == 3
    clean = card_of(
        handover.from_files(
            bundle.decode_screening(packed(shot, lab_log, logged)[1]), logged, pack_is_current=True
        )
    )
    told = card_of(given)
    assert clean.counts.left_out_certificate == 0 and told.counts.left_out_certificate == 1
    assert clean.pack_score is not None and told.pack_score is not None
    assert told.pack_score < clean.pack_score


def test_notices_never_raise_a_score(world: Any, logged: trust.TrustRoot, lab_log: ModuleType) -> None:
    """Property over 300 seeded sets of notices of every kind about certificates and whole screenings."""
    draw = random.Random(20261130)
    shot = world.screening().usual()
    raw = packed(shot, lab_log, logged)[1]
    files = bundle.decode_screening(raw)
    before = card_of(taken(files, logged))
    subjects = [(signed.digest, schema.TRY_SUBJECT) for signed, _ in shot.certificates]
    seen = set()
    for _ in range(300):
        chosen = draw.sample(subjects, draw.randint(0, len(subjects)))
        if draw.random() < 0.1:
            chosen.append((shot.opening.digest, schema.SCREENING_SUBJECT))
        notices = [
            notice(draw.choice(schema.NOTICE_KINDS[:3]), subject, about, 50 + place)
            for place, (subject, about) in enumerate(chosen)
        ]
        given = taken(files, logged, *notices)
        after = card_of(given)
        passes = {one.certificate_digest for one in given.tries if one.outcome is Outcome.PASSED}
        whole = any(one.about == schema.SCREENING_SUBJECT and one.kind in VOIDING for one in notices)
        withdrawn = {one.subject for one in notices if one.kind in VOIDING} & passes
        gone = len(passes) if whole else len(withdrawn)
        seen.add(gone)
        assert after.counts.left_out_certificate == given.result.accounting.noticed == gone
        assert before.pack_score is not None
        assert after.pack_score is None or after.pack_score <= before.pack_score
        assert given.result.exit_code == (3 if any(one.kind in VOIDING for one in notices) else 0)
    assert len(seen) > 4, "the draw was too tame"


def test_a_correction_and_a_key_event_change_no_figure(
    world: Any, lab: Any, logged: trust.TrustRoot, lab_log: ModuleType
) -> None:
    """What decides nothing decides nothing; a stolen key could otherwise void what the lab signed."""
    shot = world.screening().usual()
    plain = handover.from_files(
        bundle.decode_screening(packed(shot, lab_log, logged)[1]), logged, pack_is_current=True
    )
    told = [shot.noticed(0, "correction"), lab.key_event(world, event="compromised")]
    files = bundle.decode_screening(packed(shot, lab_log, logged, told)[1])
    given = handover.from_files(files, logged, pack_is_current=True)
    assert card_of(given) == card_of(plain)
    assert given.result.exit_code == 0
    codes = [finding.code for finding in given.result.findings]
    assert sorted(codes) == ["corrected", "key-event"]


def test_notices_are_shown_with_kind_date_and_reason(
    world: Any, logged: trust.TrustRoot, lab_log: ModuleType
) -> None:
    """certificates.md 3.6: `none through size N`, else each one on a line; the same as data."""
    shot = world.screening().usual()
    text = report.screening_text(verify_screening_bundle(packed(shot, lab_log, logged)[1], logged))
    assert "notices     none through size 15\n" in text
    raw = packed(
        shot, lab_log, logged, [shot.noticed(0, reason="regraded"), shot.noticed_whole(reason="leaked")]
    )[1]
    found = verify_screening_bundle(raw, logged)
    text = report.screening_text(found)
    assert "notices     2 through size 17\n" in text
    assert "notice      supersession of 2026-09-23T14:13:20Z about alpha try 1 attempt 1: regraded\n" in text
    assert "notice      contamination of 2026-09-23T14:13:20Z about the whole screening: leaked\n" in text
    data = report.screening_data(found)["notices"]
    assert [(one["kind"], one["reason"]) for one in data["notices"]] == [
        ("supersession", "regraded"),
        ("contamination", "leaked"),
    ]
    assert data["through"] == 17


def test_the_published_log_speaks_for_an_old_bundle(
    world: Any, logged: trust.TrustRoot, lab_log: ModuleType, tmp_path: Path
) -> None:
    """A bundle made before a notice is answered by the log; without the log it says that it does not know."""
    shot = world.screening().usual()
    signed = shot.certificates[0][0]
    log, _ = packed(shot, lab_log, logged, [shot.noticed(0)])
    log.write(tmp_path / log.origin)
    raw = bundle.encode_try(signed.envelope, signed.manifest, log.prove(signed.envelope, 12))
    alone = verify_try_bundle(raw, logged)
    assert alone.exit_code == 0
    assert "notices     unknown: " in report.try_text(alone)
    asked = verify_try_bundle(raw, logged, published=PublishedNotices(tmp_path))
    assert (asked.exit_code, asked.reasons) == (3, ("superseded",))
    elsewhere = verify_try_bundle(raw, logged, published=PublishedNotices(tmp_path / "none"))
    assert elsewhere.exit_code == 0 and "notices     unknown" in report.try_text(elsewhere)


def test_a_notice_in_the_log_of_a_later_year_is_seen(
    world: Any, lab: Any, lab_log: ModuleType, tmp_path: Path
) -> None:
    """Logs are yearly, certificates are verified years later."""
    from orchestrator.certificates import founding

    later = "assize.example/test-lab/log/2027"
    logs = [
        founding.log_entry(lab.ORIGIN, lab.key("log").public, final_size=20),
        founding.log_entry(later, lab.key("log-2027").public),
    ]
    years: dict[str, Any] = {"not_before": "2026-01-01T00:00:00Z", "not_after": "2028-01-01T00:00:00Z"}
    keys = [
        founding.key_entry(lab.key("cert").public, log=lab.ORIGIN, until_index=20, **years),
        founding.key_entry(lab.key("cert-2027").public, log=later, **years),
    ]
    root = trust.parse(lab.trust_root(logged=True, logs=logs, keys=keys))
    shot = world.screening().usual()
    signed = shot.certificates[0][0]
    old = lab_log.Log(root).enter(shot.opening.envelope, signed.envelope).fill(18)
    old.write(tmp_path / old.origin)
    told = lab.resign(lab.payload_of(shot.noticed(0)), lab.key("cert-2027"))
    new = lab_log.Log(root, later, "log-2027").fill(2).enter(told)
    new.write(tmp_path / later)
    raw = bundle.encode_try(signed.envelope, signed.manifest, old.prove(signed.envelope))
    found = verify_try_bundle(raw, root, published=PublishedNotices(tmp_path))
    assert found.reasons == ("superseded",)
    # The exporter can list it too: its proof carries the checkpoint of its own log.
    listed = bundle.NoticeList(20, (bundle.ListedNotice(told, new.prove(told)),))
    raw = bundle.encode_try(signed.envelope, signed.manifest, old.prove(signed.envelope), listed)
    assert verify_try_bundle(raw, root).reasons == ("superseded",)


def test_the_audit_lists_notices_and_counts_what_they_withdraw(
    world: Any, lab: Any, logged: trust.TrustRoot, lab_log: ModuleType, tmp_path: Path
) -> None:
    """Two certificates by name, and all ten by their screening: each counted once."""
    shot = world.screening().usual()
    some = [
        shot.noticed(0),
        shot.noticed(1, "contamination"),
        shot.noticed(2, "correction"),
        lab.key_event(world),
    ]
    folder = packed(shot, lab_log, logged, some, 0)[0].write(tmp_path / "some")
    found = audit_log(folder, logged)
    assert (found.exit_code, len(found.notices), found.withdrawn) == (0, 4, 2)
    text = audit_text(found, logged)
    assert "4 through size 16, which withdraw 2 certificates\n" in text
    assert "notice      key-event of 2026-09-23T14:13:20Z about key " in text
    folder = packed(shot, lab_log, logged, [*some, shot.noticed_whole()], 0)[0].write(tmp_path / "all")
    assert audit_log(folder, logged).withdrawn == 10


def test_a_key_without_the_usage_is_refused_by_name(world: Any, lab: Any) -> None:
    """A trust root from before there were notices: the refusal says what is missing and what helps."""
    three = [schema.OPENING, schema.TRY, schema.SUMMARY]
    signer = FileSigner(lab.key("cert"), world.store, trust.parse(lab.trust_root(usages=three)))
    shot = world.screening()
    told = notice_statement.notice(
        issuer=lab.ISSUER,
        subject=shot.opening.digest,
        kind="contamination",
        reason="leaked",
        about_unix_ms=lab.OPENED_MS,
        issued_unix_ms=lab.OPENED_MS,
        screening=shot.named(),
    )
    with pytest.raises(SigningRefusedError, match="lists no usage notice/v1") as caught:
        signer.sign(told)
    assert "assize keys rotate" in (caught.value.hint or "")


def test_the_same_notice_has_one_place_in_the_log(world: Any, lab: Any) -> None:
    """Its id follows from what it says; whatever it says differently is another notice."""
    shot = world.screening().usual()
    other = lab.sha("other")

    def identity(**changes: Any) -> str:
        values = {"kind": "supersession", "reason": "a", "replaced_by": None, **changes}
        subject = values.pop("subject", shot.opening.digest)
        return notice_statement.statement_id(subject, at_unix_ms=1, **values)

    base = identity()
    assert identity() == base
    changed = [
        identity(kind="contamination"),
        identity(reason="b"),
        identity(replaced_by=other.sha256),
        identity(subject=other.sha256),
    ]
    assert len({base, *changed}) == 5


@pytest.mark.parametrize("reason", ["", "x" * 1001, "line\nfeed", "\x1b[31m", "caf\u00e9", "\u202e"])
def test_a_reason_is_one_line_of_plain_text(world: Any, reason: str) -> None:
    """It is shown to people on terminals and pages."""
    with pytest.raises(ValidationError):
        world.screening().noticed_whole(reason=reason)


def test_the_models_word_lists_are_those_of_the_table() -> None:
    """Closed lists of kinds and of key events, the same when signing and when verifying."""
    kinds = notice_statement.NoticePredicate.model_fields["kind"].annotation
    events = notice_statement.NoticedKey.model_fields["event"].annotation
    assert kinds.__args__ == schema.NOTICE_KINDS  # type: ignore[union-attr]
    assert events.__args__ == schema.KEY_EVENTS  # type: ignore[union-attr]
    assert set(rules._RULES) == set(schema.PAYLOAD_LIMIT_BYTES)
