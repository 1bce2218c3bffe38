"""The end of a draft: signatures come in, and it is published or discarded."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.certificates import dsse, schema, trust
from orchestrator.certificates.errors import CertificateError
from orchestrator.certificates.trust import TrustRoot
from orchestrator.custody import changes
from orchestrator.custody.custodian import Custodian
from orchestrator.custody.draft import Draft
from orchestrator.custody.errors import ChangeError, CustodyError
from orchestrator.custody.signer import candidates, open_log
from orchestrator.errors import AssizeError
from orchestrator.verification import ed25519


@dataclass(frozen=True)
class Discarded:
    """What a discarded draft leaves: keys that sign again, and key files that nothing lists."""

    version: int
    thawed: tuple[str, ...]
    unlisted: tuple[str, ...]


def sign_here(custodian: Custodian) -> tuple[Draft, list[str]]:
    """Sign with every root key that this home holds; the draft, and the ids of the keys that signed now."""
    with custodian.at_work():
        found, signed = custodian.some_draft(), []
        wanted = {keyid for _, _, keyids in found.root_sets() for keyid in keyids} - found.signatures.keys()
        for keyid in sorted(wanted):
            if custodian.keyring.holds(keyid):
                found = found.signed_by(custodian.keyring.signing(keyid))
                signed.append(keyid)
        if signed:
            custodian.write_draft(found)
        return found, signed


def merge(custodian: Custodian, others: list[Draft]) -> Draft:
    """Collect the signatures of copies that were signed elsewhere."""
    with custodian.at_work():
        found = custodian.some_draft()
        for other in others:
            found = found.merged(other)
        custodian.write_draft(found)
        return found


def publish(custodian: Custodian) -> TrustRoot:
    """Make the draft the trust root, after checking it as a verifier does and against the logs.

    The file of the new version is the one step that counts; called again it finishes what was interrupted.
    Raises `DraftError`, `VerificationError`, `CustodyError`; nothing has changed then.
    """
    with custodian.at_work():
        if _is_published(custodian):
            custodian.roots.record()
            custodian.drop_draft()
            return custodian.roots.current()
        found = custodian.some_draft()
        raw = found.finished()
        with custodian.logs_at_rest():
            checked = _check(custodian, found, raw)
            custodian.roots.publish(raw)
        custodian.drop_draft()
        return checked


def _is_published(custodian: Custodian) -> bool:
    """Whether the draft that lies here became the current version, and only has to be removed."""
    found = custodian.stored_draft()
    if found is None or not custodian.roots.exists:
        return False
    raw = custodian.roots.raw(custodian.roots.current().version)
    return found.payload == dsse.decode(raw, dsse.TRUST_ROOT_TYPE, trust.LIMIT_BYTES).payload


def _check(custodian: Custodian, found: Draft, raw: bytes) -> TrustRoot:
    """What a verifier would say, and whether the home and its logs go with the new version."""
    if not custodian.roots.exists:
        checked = trust.parse(raw)
    else:
        current = custodian.roots.current()
        checked = trust.follow(current, raw)
        before = changes.document_of(custodian.roots.raw(current.version))
        wrong = changes.objections(before, found.document)
        if wrong:
            raise ChangeError("; ".join(wrong), hint="discard the draft: assize keys discard")
        _check_logs(custodian, current, checked)
    _check_keys(custodian, checked)
    return checked


def _check_logs(custodian: Custodian, current: TrustRoot, new: TrustRoot) -> None:
    """Nothing that is logged may fall out of what its key or its log had when it was entered."""
    for key in new.keys.values():
        old = current.keys.get(key.keyid)
        closes = old is not None and old.until_index is None and key.until_index is not None
        if not closes or key.log is None or key.until_index is None:
            continue
        late = custodian.signed_by(key.keyid, current.logs[key.log], key.until_index)
        if late:
            raise ChangeError(
                f"key {key.keyid} has signed entry {late[-1]}, the draft closes it at {key.until_index}",
                hint="assize keys discard, then draft it again",
            )
    for origin, log in new.logs.items():
        before = current.logs.get(origin)
        if before is None or before.final_size is not None or log.final_size is None:
            continue
        size = custodian.log_size(before)
        if size != log.final_size:
            raise ChangeError(
                f"the log {origin} has {size} entries meanwhile, the draft ends it at {log.final_size}",
                hint="assize keys discard, then draft it again",
            )


def _check_keys(custodian: Custodian, new: TrustRoot) -> None:
    """A home that could sign nothing under its new trust root is not what anybody wants."""
    origin = open_log(new)
    size = custodian.log_size(new.logs[origin]) if origin is not None else 0
    problem: AssizeError | None = None
    for key in candidates(new, schema.TRY, size):
        try:
            custodian.keyring.signing(key.keyid)
        except (CustodyError, CertificateError) as error:
            problem = error
        else:
            return
    if problem is not None:
        raise CustodyError(f"nothing could be signed under it: {problem.message}", hint=problem.hint)
    raise CustodyError("this version lists no key that could sign", hint="assize keys rotate")


def discard(custodian: Custodian) -> Discarded:
    """Take the draft back: keys that it would revoke or close sign again; keys made for it stay as files."""
    with custodian.at_work():
        if _is_published(custodian):
            custodian.drop_draft()
            raise ChangeError("the draft is published already", hint="only a later version changes it")
        found = custodian.stored_draft() or custodian.some_draft()
        before = custodian.roots.current() if custodian.roots.exists else None
        thawed = [keyid for keyid in _ends(before, found) if custodian.keyring.thaw(keyid)]
        custodian.drop_draft()
        listed = set() if before is None else before.keys.keys() | before.root_keys.keys()
        made = {entry["keyid"] for entry in found.document["certificateKeys"]} - set(listed)
        held = {entry.keyid for entry in custodian.keyring.entries()}
        return Discarded(found.version, tuple(thawed), tuple(sorted(made & held)))


def _ends(before: TrustRoot | None, found: Draft) -> list[str]:
    """The keys that are open in the version before and that the draft ends."""
    if before is None:
        return []
    return [
        entry["keyid"]
        for entry in found.document["certificateKeys"]
        if entry["keyid"] in before.keys
        and before.keys[entry["keyid"]].revoked_from is None
        and (entry["revoked"] is not None or entry["untilIndex"] is not None)
    ]


def destroy(custodian: Custodian, keyid: str) -> str:
    """Destroy the private key of an id that can sign nothing any more; the name of its file."""
    with custodian.at_work():
        refuse_needed(custodian, keyid)
        return custodian.keyring.destroy(keyid).name


def refuse_needed(custodian: Custodian, keyid: str) -> None:
    """Raise `ChangeError` for a key that the trust root or the draft lets sign."""
    found = custodian.draft()
    current = custodian.roots.current() if custodian.roots.exists else None
    if found is not None:
        known = set() if current is None else {*current.keys, *_log_keys(current)}
        document = found.document
        drafted = {one["keyid"] for one in [*document["certificateKeys"], *document["root"]["keys"]]}
        drafted |= {changes.log_keyid(one) for one in document["logs"]}
        if keyid in drafted - known:
            raise ChangeError(f"the draft lists key {keyid}", hint="publish or discard the draft first")
    if current is not None:
        _refuse_in_use(custodian, current, keyid)


def _log_keys(root: TrustRoot) -> dict[str, bool]:
    """The key ids of logs, and whether a log of theirs is open."""
    found: dict[str, bool] = {}
    for log in root.logs.values():
        keyid = ed25519.key_id(log.key.key.raw)
        found[keyid] = found.get(keyid, False) or log.final_size is None
    return found


def _refuse_in_use(custodian: Custodian, root: TrustRoot, keyid: str) -> None:
    if keyid in root.root_keys:
        raise ChangeError(
            f"{keyid} is a root key of the current trust root",
            hint="assize keys ceremony takes root keys out; only then can they be destroyed",
        )
    key = root.keys.get(keyid)
    if key is not None and key.revoked_from is None:
        size = custodian.log_size(root.logs[key.log]) if key.log is not None else 0
        if key.until_index is None or size < key.until_index:
            raise ChangeError(
                f"key {keyid} may still sign",
                hint=f"assize keys close {keyid[:8]}, publish that, and let the log reach the index",
            )
    if _log_keys(root).get(keyid):
        raise ChangeError(f"{keyid} signs an open log", hint="assize keys new-log ends the log first")
