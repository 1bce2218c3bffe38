"""A home from its first key on: rotation, closing, revocation, a new log; rows 5 and 6 of the attack table.

Rules: certificates.md 3.5 and issue 5, deliverable 4. Every certificate is verified by a reader who has
nothing but the pinned version 1 and what the bundle carries.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator import canonical
from orchestrator.certificates import dsse, trust
from orchestrator.certificates.audit import audit_log
from orchestrator.certificates.errors import KeyPositionError
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.certificates.signer import FileSigner
from orchestrator.certificates.verify import verify_try_bundle
from orchestrator.custody import publishing, steps
from orchestrator.custody.affected import affected
from orchestrator.custody.errors import ChangeError, KeyFrozenError
from orchestrator.errors import AssizeError
from orchestrator.ledger.records import certificates
from orchestrator.screenings.bundling import statement_of, write_file
from orchestrator.screenings.certify import Certifier
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.recertify import recertify, statement_from


def codes(path: Path, root: Any) -> tuple[int, set[str]]:
    result = verify_screening_bundle(path, root)
    return result.exit_code, {finding.code for finding in result.findings}


def keyids(path: Path, root: Any) -> tuple[str, ...]:
    return tuple(verify_screening_bundle(path, root).keyids)


def keys_of(lab: Any) -> list[str]:
    return list(lab.newest.keys)


def rotated(lab: Any, at: int) -> tuple[str, str]:
    """The old and the new key after a published rotation at entry `at`."""
    steps.rotate(lab.custodian(), at=at)
    root = lab.publish()
    old, new = root.keys
    assert (root.version, root.keys[new].from_index, root.keys[old].until_index) == (2, at, None)
    return old, new


def test_the_writer_changes_keys_at_the_chosen_index(lab: Any) -> None:
    """Entries below the index are by the old key, the others by the new one, within one process; a reader
    with the pinned version 1 follows the chain of the bundle."""
    first = lab.screenings[0]
    lab.certify(first, 1)
    assert lab.size() == 2
    old, new = rotated(lab, 3)
    bundle = lab.certify(first)
    custodian = lab.custodian()
    log = next(iter(lab.newest.logs.values()))
    assert custodian.signed_by(old, log, 0) == [0, 1, 2]
    assert custodian.signed_by(new, log, 0) == [3, 4]
    assert codes(bundle, lab.pinned)[0] == 0
    assert set(keyids(bundle, lab.pinned)) == {old, new}
    assert audit_log(lab.home.log / log.key.origin, lab.newest).exit_code == 0


def test_without_the_chain_the_new_key_is_unknown(lab: Any) -> None:
    """What version 1 alone vouches for: nothing that a later key signed."""
    first = lab.screenings[0]
    rotated(lab, 0)
    lab.certify(first)
    path = sorted((lab.home.certificates / first).glob("*.trybundle.json"))[0]
    assert verify_try_bundle(path, lab.pinned).exit_code == 0
    data = json.loads(path.read_bytes())
    assert len(data["trustRootChain"]) == 1
    result = verify_try_bundle(canonical.encode({**data, "trustRootChain": []}), lab.pinned)
    assert (result.exit_code, result.reasons) == (1, ("no-trusted-key",))


def test_a_rotation_that_is_published_during_a_run_holds_from_its_next_certificate(lab: Any) -> None:
    """The signer and the log look at the trust root for every statement; no restart is needed."""
    first = lab.screenings[0]

    def between(number: int) -> None:
        if number == 1:
            rotated(lab, lab.size())

    bundle = lab.certify(first, between=between)
    _, new = keys_of(lab)
    log = next(iter(lab.newest.logs.values()))
    assert lab.custodian().signed_by(new, log, 0) == [2, 3, 4]
    assert codes(bundle, lab.pinned)[0] == 0


def test_a_closed_key_is_good_below_its_end_and_can_be_destroyed(lab: Any) -> None:
    """Row 6: what it signed before verifies, under checkpoints of any later time; nothing else does. Its
    file may go only when it can sign nothing any more."""
    one, two = lab.screenings
    before = lab.certify(one)
    old, _ = rotated(lab, 6)
    with pytest.raises(ChangeError, match="may still sign"):
        publishing.destroy(lab.custodian(), old)
    lab.certify(two, 1)
    assert lab.size() == 7
    steps.close(lab.custodian(), old)
    root = lab.publish()
    assert (root.version, root.keys[old].until_index) == (3, 6)
    publishing.destroy(lab.custodian(), old)
    assert not lab.custodian().keyring.holds(old)
    after = lab.certify(two)
    for path in (before, after):
        assert codes(path, lab.pinned)[0] == 0
        assert codes(path, lab.newest)[0] == 0
    late = [found.code for found in root.keys[old].objections(6)]
    assert late == ["key-window"]


def test_a_key_is_closed_behind_its_last_entry(lab: Any) -> None:
    """Closed before the switch was reached, it signs up to the switch; never below what it has signed."""
    one = lab.screenings[0]
    lab.certify(one, 1)
    old, _ = rotated(lab, 4)
    draft = steps.close(lab.custodian(), old)
    assert next(key for key in draft.document["certificateKeys"] if key["keyid"] == old)["untilIndex"] == 4
    lab.publish()
    assert codes(lab.certify(one), lab.pinned)[0] == 0
    log = next(iter(lab.newest.logs.values()))
    assert lab.custodian().signed_by(old, log, 0) == [0, 1, 2, 3]


def test_the_only_key_is_not_closed(lab: Any) -> None:
    """There is nobody to take over."""
    with pytest.raises(ChangeError, match="no other key"):
        steps.close(lab.custodian(), keys_of(lab)[0])


def test_revocation_freezes_at_once_and_a_new_key_takes_over(lab: Any) -> None:
    """Row 5, and the freeze in the middle of a screening: refused with the reason; after the publication the
    same screening goes on with a new key, and what lies before the entry stays good."""
    one, two = lab.screenings
    good = lab.certify(one)
    (old,) = keys_of(lab)
    size = lab.size()

    def between(number: int) -> None:
        if number == 1:
            steps.revoke(lab.custodian(), old, size, "compromise")

    with pytest.raises(KeyFrozenError, match="signs nothing any more: its revocation is under way") as caught:
        lab.certify(two, between=between)
    assert caught.value.hint and "assize keys status" in caught.value.hint
    assert lab.size() == size + 2  # the opening and one try, both of them in doubt
    root = lab.publish()
    assert root.keys[old].revoked_from == size
    new = next(keyid for keyid in root.keys if keyid != old)
    assert root.keys[new].from_index == size + 2
    bundle = lab.certify(two)
    assert codes(good, lab.newest)[0] == 0
    code, found = codes(bundle, lab.newest)
    assert code == 1 and "key-revoked" in found
    rows = affected(lab.custodian())
    assert [(row.index, row.kind, row.screening, row.renewed) for row in rows] == [
        (size, "opening", two, False),
        (size + 1, "try-certificate", two, False),
    ]


def test_revoked_from_a_later_entry_what_is_before_counts(lab: Any) -> None:
    """Row 5: revoked from an index after the entry: 0; from the entry itself: 1."""
    one = lab.screenings[0]
    bundle = lab.certify(one)
    (old,) = keys_of(lab)
    steps.revoke(lab.custodian(), old, 5, "compromise")
    lab.publish()
    assert codes(bundle, lab.newest)[0] == 0
    steps.revoke(lab.custodian(), old, 4, "compromise")
    lab.publish()
    code, found = codes(bundle, lab.newest)
    assert code == 1 and "key-revoked" in found
    with pytest.raises(ChangeError, match="is revoked from 4 already"):
        steps.revoke(lab.custodian(), old, 5, "compromise")


def test_what_a_revocation_hit_is_certified_again_in_a_new_log(lab: Any) -> None:
    """Revocation and new log in one version: the same statements under a new key, from stored evidence. The
    first entry of the new log commits to the last checkpoint of the old one, which has ended."""
    one, two = lab.screenings
    first, second = lab.certify(one), lab.certify(two)
    (old,) = keys_of(lab)
    (ended,) = lab.newest.logs
    steps.new_log(lab.custodian())
    steps.revoke(lab.custodian(), old, 7, "compromise")
    root = lab.publish()
    assert (root.version, root.logs[ended].final_size) == (2, 10)
    assert codes(first, root)[0] == 0 and codes(second, root)[0] == 1
    installation = Installation.open(lab.home)
    done = recertify(installation, two)
    again = recertify(installation, two)
    digests = {found.digest for found in certificates(installation.ledger, two)}
    installation.close()
    # Entries 7 to 9 are in doubt; the opening and the first try were entered before and stay where they are.
    assert (done.statements, done, lab.size()) == (3, again, 4)
    result = verify_screening_bundle(done.bundle, lab.pinned)
    assert (result.exit_code, result.accounting.passed) == (0, 3)
    assert {found.digest for found in result.tries} <= digests
    assert set(result.keyids) == set(root.keys)
    for name in sorted((lab.home.certificates / two).glob("*.trybundle.json")):
        assert verify_try_bundle(name, lab.pinned).exit_code == 0
    # The audit of the old log goes on to say which of its entries are revoked; that of the new one, which
    # includes it, finds each of them certified again.
    alone, both = (audit_log(lab.home.log / origin, lab.newest) for origin in root.logs)
    assert [finding.code for finding in alone.findings if finding.rule.exit_code] == ["key-revoked"] * 3
    assert (both.exit_code, both.again, both.earlier) == (0, 3, ((ended, 10),))
    assert [(row.index, row.renewed) for row in affected(lab.custodian())] == [
        (7, True),
        (8, True),
        (9, True),
    ]


@pytest.mark.parametrize("cut", ["before", "after", "bundle"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_certifying_again_is_stopped_and_run_again(
    cut: str, number: int, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before or after an entry of the new log, or before a bundle is written: the same call again
    enters what is missing, nothing twice, and writes every bundle."""

    class StoppedError(BaseException):
        """The process is gone."""

    def stopping(function: Any, *, first: bool) -> Any:
        calls = []

        def stopped(*arguments: Any, **named: Any) -> Any:
            calls.append(1)
            if first and len(calls) == number:
                raise StoppedError
            done = function(*arguments, **named)
            if not first and len(calls) == number:
                raise StoppedError
            return done

        return stopped

    _, two = lab.screenings
    lab.certify(two)
    (old,) = keys_of(lab)
    steps.new_log(lab.custodian())
    steps.revoke(lab.custodian(), old, 0, "compromise")
    lab.publish()
    installation = Installation.open(lab.home)
    logbook = installation.logbook()
    assert logbook is not None
    with monkeypatch.context() as patched:
        if cut == "bundle":
            write = "orchestrator.screenings.recertify.write_file"
            patched.setattr(write, stopping(write_file, first=True))
        else:
            patched.setattr(logbook, "enter", stopping(logbook.enter, first=cut == "before"))
        with pytest.raises(StoppedError):
            recertify(installation, two)
    installation.close()
    installation = Installation.open(lab.home)
    done = recertify(installation, two)
    installation.close()
    # The first entry of the new log commits to the old one; opening, three tries and the summary follow.
    assert lab.size() == 6
    assert all(row.renewed for row in affected(lab.custodian()))
    assert verify_screening_bundle(done.bundle, lab.newest).exit_code == 0
    for name in sorted((lab.home.certificates / two).glob("*.trybundle.json")):
        assert verify_try_bundle(name, lab.newest).exit_code == 0


def test_a_new_log_holds_everything_up_until_it_is_published(lab: Any) -> None:
    """The size of the old log is signed, so nothing may be added meanwhile; a discarded draft changes
    nothing, and the keys sign again."""
    one, two = lab.screenings
    lab.certify(one)
    steps.new_log(lab.custodian())
    with pytest.raises(KeyFrozenError, match="is being ended"):
        lab.certify(two)
    done = publishing.discard(lab.custodian())
    assert done.thawed == tuple(keys_of(lab)) and len(done.unlisted) == 1
    assert codes(lab.certify(two), lab.pinned)[0] == 0
    assert lab.newest.version == 1


def test_a_lost_log_key_is_replaced_by_a_new_log(lab: Any) -> None:
    """Nothing can be added to the old log; what it has stays provable, and the lab goes on in another one."""
    one, two = lab.screenings
    first = lab.certify(one)
    (lab.home.keys / "log.pem").unlink()
    with pytest.raises(AssizeError, match="is not in"):
        lab.certify(two)
    steps.new_log(lab.custodian())
    root = lab.publish()
    ended, begun = root.logs
    assert (root.logs[ended].final_size, begun) == (5, f"{ended}-2")
    second = lab.certify(two)
    assert codes(first, lab.pinned)[0] == 0 and codes(second, lab.pinned)[0] == 0
    raw = next(iter(lab.custodian().entries(root.logs[begun], 0)))[1]
    assert raw.endswith(f"{ended} -shard 0 0\n".encode())


def test_the_log_refuses_a_key_outside_its_positions(lab: Any, worlds: ModuleType) -> None:
    """Whoever signs: an entry at a position that is not the key's is not logged (row 6 from the inside)."""
    one, two = lab.screenings
    lab.certify(one)
    (old,) = keys_of(lab)
    installation = Installation.open(lab.home)
    certifier = lab.certifier(installation, two)
    certifier.open(worlds.SPONSORS)
    envelope = certificates(installation.ledger, two)[0].envelope
    logbook = installation.logbook()
    assert logbook is not None and logbook.enter(envelope) == 5  # again: where it is
    closed = trust.parse(lab.home.trust_root.read_bytes())
    steps.rotate(lab.custodian(), at=6)
    lab.publish()
    steps.close(lab.custodian(), old)
    lab.publish()
    signer = installation.signer()
    assert signer.keyid != old and closed.keys[old].objections(6) == []
    signed = FileSigner(lab.custodian().keyring.holder(old), installation.store, lab.pinned).sign(
        statement_from(certificates(installation.ledger, one)[0].envelope)
    )
    assert logbook.enter(signed.envelope) == 0
    with pytest.raises(KeyPositionError, match="entry 6"):
        logbook.enter(_other(lab, installation, old))
    installation.close()


def _other(lab: Any, installation: Installation, old: str) -> bytes:
    """A statement that is not logged yet, signed by the closed key as a thief would."""
    data = statement_of(certificates(installation.ledger, lab.screenings[1])[0].envelope)
    data["predicate"]["screening"]["id"] = "01JZZZZZZZZZZZZZZZZZZZZZZZ"
    payload = canonical.encode(data)
    key = lab.custodian().keyring.holder(old)
    signature = key.sign(dsse.pae(dsse.STATEMENT_TYPE, payload))
    return dsse.encode(payload, dsse.STATEMENT_TYPE, [(old, signature)])


def test_a_signer_that_saw_an_older_log_signs_again(lab: Any) -> None:
    """Another process moved the log past the end of the key between signing and entering: one statement is
    logged, by the key whose turn it is."""
    one = lab.screenings[0]
    lab.certify(one, 1)
    old, new = rotated(lab, 2)
    steps.close(lab.custodian(), old)
    lab.publish()
    seen: list[int] = []

    def lag(certifier: Certifier) -> None:
        signer: Any = certifier._signer
        real = signer._size_of

        def size_of(origin: str) -> int:
            seen.append(real(origin))
            return 1 if len(seen) == 1 else seen[-1]

        signer._size_of = size_of

    path = lab.certify(one, before=lag)
    log = next(iter(lab.newest.logs.values()))
    assert seen[:2] == [2, 2]
    assert lab.custodian().signed_by(old, log, 0) == [0, 1]
    assert lab.custodian().signed_by(new, log, 0) == [2, 3, 4]
    assert codes(path, lab.pinned)[0] == 0
