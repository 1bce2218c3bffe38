"""Drafts of trust roots: signing anywhere, collecting, and row 45 for roots that the product makes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest

from orchestrator import canonical
from orchestrator.certificates import dsse, founding, trust
from orchestrator.certificates.keys import SigningKey
from orchestrator.custody import changes, draft
from orchestrator.custody.draft import Draft
from orchestrator.custody.errors import ChangeError, DraftError
from orchestrator.verification.errors import VerificationError

START, END = "2026-01-01T00:00:00Z", "2028-01-01T00:00:00Z"
LOG = "lab.example/log/2026"


def key(name: str) -> SigningKey:
    """A seeded key; nothing of it is secret."""
    return SigningKey.from_seed(name.encode().ljust(32, b"-"))


def publics(names: str) -> list[bytes]:
    return [key(f"root {name}").public for name in names]


def first(roots: str = "abc", threshold: int = 2) -> Draft:
    document = changes.with_roots(changes.first("lab.example/x", START, END), publics(roots), threshold)
    entry = founding.key_entry(key("certificate").public, not_before=START, not_after=END, log=LOG)
    document["logs"] = [founding.log_entry(LOG, key("log").public)]
    return Draft.of(changes.with_certificate_key(document, entry), None)


def later(raw: bytes, roots: str | None = None, threshold: int = 2) -> Draft:
    document = changes.successor(raw, START, END)
    if roots is not None:
        document = changes.with_roots(document, publics(roots), threshold)
    return Draft.of(document, raw)


def signed(made: Draft, names: str) -> Draft:
    for name in names:
        made = made.signed_by(key(f"root {name}"))
    return made


def published(made: Draft, names: str) -> bytes:
    return signed(made, names).finished()


def test_a_draft_travels_and_signatures_are_collected() -> None:
    """Two signers on machines of their own, in any order: together they make the file that verifies."""
    made = first()
    copies = [draft.parse(made.encode()) for _ in "ab"]
    at_a, at_b = signed(copies[0], "a"), signed(copies[1], "b")
    assert [need.met for need in at_a.needs()] == [False]
    one = draft.parse(made.merged(draft.parse(at_a.encode())).encode()).merged(at_b)
    other = made.merged(at_b).merged(at_a).merged(at_a)
    assert one.complete and one.finished() == other.finished()
    root = trust.parse(one.finished())
    assert (root.version, root.threshold, len(root.root_keys)) == (1, 2, 3)


@pytest.mark.parametrize("names", ["", "a", "c"])
def test_too_few_signatures_are_no_trust_root(names: str) -> None:
    """The threshold holds before anything is written, and the sentence counts."""
    with pytest.raises(DraftError, match=f"needs 2 signatures .* it has {len(names)}"):
        published(first(), names)


@pytest.mark.parametrize("count", range(6))
def test_a_changed_root_set_needs_both_thresholds(count: int) -> None:
    """Row 45, exhaustively: of every set of signers, those and only those make version 2 that hold two of
    a, b, c and two of b, c, d; and what they make is what a verifier follows."""
    raw = published(first(), "ab")
    for names in itertools.combinations("abcd", min(count, 4)):
        made = signed(later(raw, "bcd"), "".join(names))
        enough = len({*names} & {*"abc"}) >= 2 and len({*names} & {*"bcd"}) >= 2
        assert made.complete is enough
        if enough:
            root = trust.follow(trust.parse(raw), made.finished())
            assert (root.version, root.keys.keys()) == (2, trust.parse(raw).keys.keys())
        else:
            with pytest.raises(DraftError):
                made.finished()


def test_four_signatures_are_enough_for_two_root_sets() -> None:
    """An envelope holds four: those that count twice are taken first, and no more than needed."""
    raw = published(first("abcde", 3), "abc")
    made = signed(later(raw, "cdefg", 3), "abcdefg")
    root = trust.follow(trust.parse(raw), made.finished())
    assert root.version == 2
    apart = signed(later(raw, "fghij", 3), "abcfgh")
    with pytest.raises(DraftError, match="6 signatures are needed"):
        apart.finished()


def test_the_next_version_is_refused_where_it_does_not_follow() -> None:
    """Row 45: rollback, the same version, a skipped version, a fork, another document's signatures."""
    one = published(first(), "ab")
    two = published(later(one), "ab")
    three = published(later(two), "ab")
    other = published(first(), "bc")
    fork = published(later(other), "ab")
    at_one, at_two = trust.parse(one), trust.follow(trust.parse(one), two)
    for known, raw in ((at_one, one), (at_one, three), (at_one, fork), (at_two, one), (at_two, two)):
        with pytest.raises(VerificationError) as caught:
            trust.follow(known, raw)
        assert caught.value.reasons == ("trust-root",)
    assert trust.follow(at_two, three).version == 3


def test_a_chain_from_outside_leads_only_where_signatures_do() -> None:
    """Rows 45 and 46: whatever stands between, before or behind, only real successors are followed."""
    one = published(first(), "ab")
    two = published(later(one), "ab")
    three = published(later(two), "ab")
    forged = json.loads(two)
    evil = published(first("xy", 2), "xy")
    evil_two = published(later(evil), "xy")
    forged["signatures"] = json.loads(evil_two)["signatures"]
    junk = [b"", b"{}", canonical.encode(forged), evil, evil_two, one]
    pinned = trust.parse(one)
    assert trust.follow_all(pinned, junk) == pinned
    assert trust.follow_all(pinned, [*junk, two, *junk, three, *junk]).version == 3
    assert trust.follow_all(pinned, [three, two]).version == 2
    assert trust.follow_all(pinned, [three]).version == 1


def test_only_root_keys_sign() -> None:
    """A certificate key, a log key or a stranger is refused at once, not at publication."""
    for name in ("certificate", "log", "root x"):
        with pytest.raises(DraftError, match="is no root key"):
            first().signed_by(key(name))


def _edited(made: Draft, **fields: Any) -> bytes:
    return canonical.encode({**json.loads(made.encode()), **fields})


def test_a_draft_file_is_checked_to_the_last_byte() -> None:
    """A signature of another draft, of a stranger, under a wrong name; another form; another predecessor."""
    made = signed(first(), "a")
    raw, data = made.encode(), json.loads(made.encode())
    (keyid, signature), *_ = data["signatures"].items()
    other = json.loads(signed(first("abcd", 2), "a").encode())["signatures"]
    stranger = key("root x")
    successor = json.loads(later(published(first(), "ab")).encode())
    bad = {
        "another draft's signature": _edited(made, signatures=other),
        "another signer's name": _edited(made, signatures={key("root b").keyid: signature}),
        "a stranger's": _edited(made, signatures={stranger.keyid: signature}),
        "no base64": _edited(made, signatures={keyid: "x"}),
        "not an object": _edited(made, signatures=[signature]),
        "another format": _edited(made, draft="assize.trust-root-draft/2"),
        "a further field": _edited(made, more=1),
        "a predecessor of version 1": _edited(made, previous=successor["previous"]),
        "no predecessor of version 2": canonical.encode({**successor, "previous": None}),
        "spaces": raw.replace(b":", b": ", 1),
        "duplicate field": raw[:-1] + b',"draft":"x"}',
        "cut": raw[:-5],
        "too large": raw + b"\n" * draft.LIMIT_BYTES,
    }
    assert draft.parse(raw) == made
    for name, wrong in bad.items():
        with pytest.raises(DraftError):
            draft.parse(wrong)
            pytest.fail(name)


def test_signatures_of_another_draft_are_not_merged() -> None:
    """The same version with another content."""
    with pytest.raises(DraftError, match="differ"):
        first().merged(signed(first("abcd"), "a"))


ENDED: dict[str, Any] = {"log": LOG, "not_before": START, "not_after": END}
CHANGES = [
    ("drops a key", lambda d: d["certificateKeys"].pop(0), "left out"),
    ("opens a closed key", lambda d: d["certificateKeys"][0].update(untilIndex=None), "opened again"),
    ("moves an end up", lambda d: d["certificateKeys"][0].update(untilIndex=11), "opened again"),
    ("takes a revocation back", lambda d: d["certificateKeys"][1].update(revoked=None), "trusted again"),
    (
        "moves a revocation up",
        lambda d: d["certificateKeys"][1]["revoked"].update(fromIndex=13),
        "trusted again",
    ),
    ("moves a beginning", lambda d: d["certificateKeys"][2].update(fromIndex=0), "beginning"),
    ("moves a date back", lambda d: d["certificateKeys"][0].update(notBefore="2020-01-01T00:00:00Z"), "beg"),
    ("drops a log", lambda d: d["logs"].pop(0), "log .* is left out"),
    ("opens an ended log", lambda d: d["logs"][0].update(finalSize=None), "would go on"),
    ("another issuer", lambda d: d.update(issuer="lab.example/y"), "issuer changes"),
]


@pytest.mark.parametrize(("edit", "told"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_what_was_ended_stays_ended(edit: Any, told: str) -> None:
    """A version that takes back what an earlier one said is refused before anybody is asked to sign it."""
    document = first().document
    revoked = {"fromIndex": 12, "reason": "compromise", "announcedAt": START}
    document["certificateKeys"] = [
        founding.key_entry(key("old").public, until_index=10, **ENDED),
        founding.key_entry(key("bad").public, from_index=10, revoked=revoked, **ENDED),
        founding.key_entry(key("new").public, from_index=20, **ENDED),
    ]
    other = founding.log_entry("lab.example/log/2027", key("log 2").public)
    document["logs"] = [founding.log_entry(LOG, key("log").public, final_size=30), other]
    raw = published(Draft.of(document, None), "ab")
    next_ = changes.successor(raw, START, END)
    assert Draft.of(next_, raw).version == 2
    edit(next_)
    with pytest.raises(DraftError, match=told):
        Draft.of(next_, raw)


@pytest.mark.parametrize(("roots", "threshold"), [("abc", 0), ("abc", 4), ("abcde", 5), ("aab", 2), ("", 1)])
def test_impossible_root_sets(roots: str, threshold: int) -> None:
    """Threshold 0, more than there are keys, more than an envelope holds, one key twice (row 45)."""
    with pytest.raises(ChangeError):
        changes.with_roots(changes.first("lab.example/x", START, END), publics(roots), threshold)


def test_one_key_has_one_use() -> None:
    """Row 4 from the making side: a root key as certificate key is noticed by the verifier's own check."""
    document = first().document
    entry = founding.key_entry(key("root a").public, **ENDED)
    made = signed(Draft.of(changes.with_certificate_key(document, entry), None), "ab")
    with pytest.raises(VerificationError, match="two uses"):
        trust.parse(made.finished())


def lines(made: Draft) -> str:
    return "\n".join(made.described())


def test_signers_read_what_changes() -> None:
    """Every kind of change is a sentence, and nothing is said of what stays."""
    raw = published(first(), "ab")
    document = changes.with_roots(changes.successor(raw, START, END), publics("bcd"), 2)
    document = changes.with_revoked(document, key("certificate").keyid, 7, "compromise", START)
    document = changes.with_closed(document, key("certificate").keyid, 9)
    new = founding.key_entry(key("new").public, from_index=9, **ENDED)
    document = changes.with_log_ended(changes.with_certificate_key(document, new), LOG, 9)
    document["witnessPolicy"] = "quorum none\n"
    text = lines(Draft.of(document, raw))
    for told in (
        "version 2 of lab.example/x",
        f"root key {key('root d').keyid} comes",
        f"root key {key('root a').keyid} goes",
        "threshold 2 of 3 root keys, was 2 of 3",
        f"certificate key {key('certificate').keyid} is revoked from entry 7: compromise",
        f"certificate key {key('certificate').keyid} is closed: it signs entries below 9 only",
        f"certificate key {key('new').keyid} comes: in {LOG} from entry 9",
        f"log {LOG} ends at 9 entries",
        "the witness policy changes",
    ):
        assert told in text, text
    assert lines(later(raw)) == f"version 2 of lab.example/x, valid until {END}"


def keyids(names: Sequence[str]) -> list[str]:
    return [key(f"root {name}").keyid for name in names]


def test_needs_name_who_can_still_sign() -> None:
    """For each root set: who has signed, and who has not."""
    raw = published(first(), "ab")
    old, new = signed(later(raw, "bcd"), "b").needs()
    assert (old.version, old.threshold, old.signed) == (1, 2, tuple(keyids("b")))
    assert sorted(old.unsigned) == sorted(keyids("ac"))
    assert (new.version, sorted(new.unsigned)) == (2, sorted(keyids("cd")))
    assert dsse.MAX_SIGNATURES == 4
