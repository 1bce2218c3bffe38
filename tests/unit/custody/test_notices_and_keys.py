"""Notices, versions of the trust root, shards and witnesses in one home: each keeps the others' promises.

Rules: certificates.md 3.4 to 3.6, rows 5, 6, 22 and 48. The reader has the pinned version 1, and what bundles
and the published logs carry.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from orchestrator.certificates import trust
from orchestrator.certificates.audit import audit_log
from orchestrator.certificates.audit_report import audit_text
from orchestrator.certificates.log_status import verifier_of
from orchestrator.certificates.logged import LogChecks
from orchestrator.certificates.published import PublishedNotices
from orchestrator.certificates.report import screening_text
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.certificates.verify import verify_try_bundle
from orchestrator.custody import publishing, steps
from orchestrator.custody.affected import affected
from orchestrator.ledger.records import CertificateKind, StoredCertificate, certificates
from orchestrator.log import witnessed
from orchestrator.screenings.exporting import try_bundle
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.key_events import announce_destroyed, announce_revoked
from orchestrator.screenings.noticing import Issued, Request, draft, issue, refresh
from orchestrator.screenings.recertify import recertify, renew_notice

ASSETS = Path(__file__).resolve().parents[2] / "assets"
LATER = 1_830_000_000  # after everything that is issued here


def tries_of(lab: Any, screening: str) -> list[StoredCertificate]:
    installation = Installation.open(lab.home)
    try:
        return certificates(installation.ledger, screening, CertificateKind.TRY)
    finally:
        installation.close()


def notice(lab: Any, target: str, kind: Any = "supersession", **more: Any) -> Issued:
    """Issue a notice, as a new process would."""
    installation = Installation.open(lab.home)
    try:
        asked = Request(target=target, kind=kind, reason="the answer had leaked", **more)
        return issue(installation, draft(installation, asked))
    finally:
        installation.close()


def exported(lab: Any, stored: StoredCertificate) -> bytes:
    installation = Installation.open(lab.home)
    try:
        return try_bundle(installation, stored)
    finally:
        installation.close()


def rotate_and_close(lab: Any) -> str:
    """Version 2 with a new key from the next entry on, version 3 that closes the old one; the old one."""
    (old,) = lab.newest.keys
    steps.rotate(lab.custodian(), at=lab.size())
    lab.publish()
    steps.close(lab.custodian(), old)
    lab.publish()
    return str(old)


def test_every_key_of_a_home_may_sign_notices(lab: Any) -> None:
    """The first key, a rotated one, and that of a new log."""
    rotate_and_close(lab)
    steps.new_log(lab.custodian())
    root = lab.publish()
    assert len(root.keys) == 3 and all("notice/v1" in key.usages for key in root.keys.values())


def test_a_notice_by_a_later_key_reaches_a_reader_with_version_1(lab: Any) -> None:
    """Certified under version 1, noticed under version 3: the bundle carries what leads there, so the pass
    does not count; and the published log says the same about the bundle of before (row 48)."""
    one, _ = lab.screenings
    before = lab.certify(one).read_bytes()
    rotate_and_close(lab)
    stored = tries_of(lab, one)[0]
    assert notice(lab, stored.digest).fresh and not notice(lab, stored.digest).fresh
    bundle = lab.home.certificates / one / "screening.zip"
    result: Any = verify_screening_bundle(bundle, lab.pinned)
    assert (result.exit_code, result.reasons, result.accounting.noticed) == (3, ("superseded",), 1)
    assert result.noticed.through == 6 and "1 through size 6" in screening_text(result, lab.pinned)
    one_try = verify_try_bundle(exported(lab, stored), lab.pinned)
    assert (one_try.exit_code, one_try.reasons) == (3, ("superseded",))
    # The bundle of before is read under the versions that its reader has; the notice's key is in the third.
    published = PublishedNotices(lab.home.log)
    assert verify_screening_bundle(before, lab.pinned).exit_code == 0
    assert verify_screening_bundle(before, lab.newest, published=published).exit_code == 3
    blind = verify_screening_bundle(before, lab.pinned, published=published)
    assert blind.exit_code == 4 and "notice-withheld" in blind.reasons


def test_published_notices_are_read_under_the_versions_that_a_bundle_brings(lab: Any) -> None:
    """The reader has version 1; the chain in the bundle leads to the key that signed the published notice."""
    one, _ = lab.screenings
    rotate_and_close(lab)
    before = lab.certify(one).read_bytes()
    notice(lab, tries_of(lab, one)[1].digest, "contamination")
    logs = LogChecks(lab.pinned)
    result = verify_screening_bundle(before, lab.pinned, logs=logs, published=PublishedNotices(lab.home.log))
    assert (logs.trust.version, result.exit_code, result.accounting.noticed) == (3, 3, 1)
    assert "notice-suppressed" not in result.reasons and "contaminated" in result.reasons


def test_a_screening_over_two_logs_with_notices_in_both(lab: Any) -> None:
    """Opened in the old log, ended in the new one, noticed in either: one bundle tells all of it, and the
    audit of the new log includes the old one (rows 6, 22, 48)."""
    one, two = lab.screenings
    lab.certify(one)
    lab.certify(two, 2)
    early, late = tries_of(lab, one)[0], tries_of(lab, two)[0]
    notice(lab, early.digest)
    steps.new_log(lab.custodian())
    root = lab.publish()
    ended, begun = root.logs
    bundle = lab.certify(two)
    assert verify_screening_bundle(bundle, lab.pinned).exit_code == 0
    for target in (late.digest, early.digest, tries_of(lab, two)[2].digest):
        notice(lab, target, "contamination")
    result: Any = verify_screening_bundle(bundle, lab.pinned)
    assert (result.exit_code, result.accounting.noticed, result.accounting.passed) == (3, 2, 1)
    assert result.log.origin == begun and [one.origin for one in result.log.earlier] == [ended]
    assert result.noticed.through == lab.size() and result.noticed.later is None
    # What ended with the old log carries the notices of both; that there is a newer log is said.
    closed: Any = verify_screening_bundle(lab.home.certificates / one / "screening.zip", lab.pinned)
    assert (closed.exit_code, len(closed.noticed.notices), closed.noticed.later) == (3, 2, begun)
    assert f"later ones are in {begun}" in screening_text(closed, root)
    assert verify_try_bundle(exported(lab, early), lab.pinned).exit_code == 3
    audit = audit_log(lab.home.log / begun, root)
    assert (audit.exit_code, len(audit.notices), audit.withdrawn) == (0, 4, 3)
    assert audit.earlier == ((ended, root.logs[ended].final_size),) and "SOUND" in audit_text(audit, root)
    assert audit_log(lab.home.log / ended, root).withdrawn == 1


def test_a_notice_of_a_revoked_key_is_logged_again(lab: Any) -> None:
    """Revoked with the key, a withdrawal is void: until it is logged again the pass counts, so it is among
    what a revocation hit, and `recertify` brings it back (row 5)."""
    one, _ = lab.screenings
    lab.certify(one)
    (old,) = lab.newest.keys
    stored = tries_of(lab, one)[0]
    size = lab.size()
    first = notice(lab, stored.digest)
    steps.new_log(lab.custodian())
    steps.revoke(lab.custodian(), old, size, "compromise")
    root = lab.publish()
    (row,) = affected(lab.custodian())
    assert (row.index, row.kind, row.digest) == (size, "notice", first.digest)
    assert verify_try_bundle(exported(lab, stored), lab.pinned).exit_code == 0
    installation = Installation.open(lab.home)
    assert renew_notice(installation, (lab.home.log / row.file).read_bytes()) == first.digest
    assert recertify(installation, one).statements == 0
    installation.close()
    assert verify_try_bundle(exported(lab, stored), lab.pinned).exit_code == 3
    again = notice(lab, stored.digest)
    assert (again.fresh, again.digest, again.origin) == (False, first.digest, list(root.logs)[-1])
    audit = audit_log(lab.home.log / again.origin, root)
    assert (audit.exit_code, len(audit.notices), audit.withdrawn) == (0, 1, 1)


def test_issuing_a_void_notice_again_logs_it_again(lab: Any) -> None:
    """The other way back: the same notice is issued once more, and finds its place taken by a revoked key."""
    one, _ = lab.screenings
    lab.certify(one)
    (old,) = lab.newest.keys
    size, stored = lab.size(), tries_of(lab, one)[0]
    first = notice(lab, stored.digest)
    steps.new_log(lab.custodian())
    steps.revoke(lab.custodian(), old, size, "compromise")
    root = lab.publish()
    again = notice(lab, stored.digest)
    assert (again.digest, again.origin) == (first.digest, list(root.logs)[-1])
    assert verify_try_bundle(exported(lab, stored), lab.pinned).exit_code == 3


def test_only_what_is_void_may_stand_in_two_logs(lab: Any) -> None:
    """Row 22 over shards: a certificate that holds in the old log is not entered in the new one, whoever
    signs it again; the audit would call it a double."""
    one, _ = lab.screenings
    lab.certify(one)
    steps.new_log(lab.custodian())
    root = lab.publish()
    installation = Installation.open(lab.home)
    assert recertify(installation, one).statements == 0
    installation.close()
    assert lab.size() == 0
    assert audit_log(lab.home.log / next(iter(root.logs)), root).exit_code == 0


def test_key_events_are_told_once_and_change_nothing(lab: Any) -> None:
    """Revocation and destruction are in the log as notices; a root key or an unknown one is none of it."""
    one, two = lab.screenings
    lab.certify(one)
    old = rotate_and_close(lab)
    publishing.destroy(lab.custodian(), old)
    (gone,) = announce_destroyed(lab.home, lab.newest, old)
    assert gone.digest is not None and announce_destroyed(lab.home, lab.newest, old) == [gone]
    assert announce_destroyed(lab.home, lab.newest, next(iter(lab.newest.root_keys))) == []
    assert announce_revoked(lab.home, lab.newest) == []
    bundle = lab.certify(two)
    new = list(lab.newest.keys)[-1]
    steps.revoke(lab.custodian(), new, lab.size(), "loss")
    root = lab.publish()
    (told,) = announce_revoked(lab.home, root)
    assert (told.keyid, told.event, told.problem) == (new, "revoked", None)
    assert announce_revoked(lab.home, root) == [told]
    assert verify_screening_bundle(bundle, root, published=PublishedNotices(lab.home.log)).exit_code == 0
    audit = audit_log(lab.home.log / next(iter(root.logs)), root)
    assert [(found.kind, found.place) for found in audit.notices] == [
        ("key-event", f"key {old} destroyed"),
        ("key-event", f"key {new} revoked"),
    ]
    assert (audit.exit_code, audit.withdrawn) == (0, 0)


@pytest.fixture
def witness() -> Any:
    """A witness with an Ed25519 key."""
    spec = importlib.util.spec_from_file_location("log_world_of_keys", ASSETS / "log" / "log_world.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Witness("w1.example/a")


def test_chain_notices_and_witnessed_proofs_in_one_bundle(lab: Any, witness: Any) -> None:
    """Version 2 names a witness. A notice that it has not seen leaves the bundle without a quorum, never
    with two checkpoints of one log; once it is cosigned everything is proven against that one."""
    one, two = lab.screenings
    policy = f"witness w1 {witness.key.vkey}\nquorum w1\n"
    steps.ceremony(lab.custodian(), [], None, issuer="unused", witness_policy=policy)
    root = lab.publish()
    (origin,) = root.logs
    folder, state, verifier = lab.home.log / origin, lab.home.log_state / origin, verifier_of(root, origin)

    def cosign() -> int:
        _, head = witnessed.export(folder, state, verifier)
        done = witnessed.collect(folder, state, verifier, witness.cosign(head, LATER).line())
        assert done.witnessing.met
        return int(done.checkpoint.size)

    def again(screening: str) -> Any:
        installation = Installation.open(lab.home)
        refresh(installation, screening)
        installation.close()
        return verify_screening_bundle(lab.home.certificates / screening / "screening.zip", lab.pinned)

    fresh = verify_screening_bundle(lab.certify(one), lab.pinned)
    assert (fresh.exit_code, fresh.reasons) == (4, ("quorum",))
    assert cosign() == 5
    lab.certify(two, 1)  # the log goes on
    result = again(one)
    assert (result.exit_code, result.log.size, result.noticed.through, lab.size()) == (0, 5, 5, 7)
    notice(lab, tries_of(lab, one)[0].digest)
    result = again(one)
    assert (result.log.size, result.log.cosigned) == (8, 0)
    assert set(result.reasons) == {"quorum", "superseded"} and result.exit_code == 4
    assert cosign() == 8
    result = again(one)
    assert (result.exit_code, result.log.size, result.log.cosigned, result.noticed.through) == (3, 8, 1, 8)
    assert trust.parse(lab.home.trust_root.read_bytes()).witness_policy.witnesses == {}
