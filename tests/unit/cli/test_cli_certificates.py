"""`assize certificates`: what is shown, exported and noticed, on a home that the product certified."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.certificates import dsse, trust
from orchestrator.certificates.audit import audit_log
from orchestrator.home import Home
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.migrate import open_ledger
from orchestrator.screenings import noticing
from orchestrator.screenings.installation import Installation
from tests.assets.services.databases import copy_home

ASSET = Path(__file__).resolve().parents[2] / "assets" / "certificates" / "certified_home.py"


@pytest.fixture(scope="module")
def asset() -> ModuleType:
    """The module that makes certified homes."""
    spec = importlib.util.spec_from_file_location("certified_home", ASSET)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("certified_home", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(asset: ModuleType, tmp_path_factory: pytest.TempPathFactory, databases: str) -> Any:
    """The certified home; to be copied by who changes it."""
    return asset.make_home(tmp_path_factory.mktemp("certified"))


@pytest.fixture(scope="module")
def hidden(asset: ModuleType, tmp_path_factory: pytest.TempPathFactory, databases: str) -> Any:
    """A home with a private screening."""
    return asset.make_home(tmp_path_factory.mktemp("private"), private=True)


@pytest.fixture
def ask(cli: Any, made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`assize` on a copy of the certified home, in an empty working folder."""
    copy = copy_home(made.home.root, tmp_path / "home").root
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def run(*arguments: str) -> Any:
        return cli(*arguments, home=copy)

    return run


def data_of(ran: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran.out)
    return found


def digest(ask: Callable[..., Any], made: Any, task: str = "first", k: int = 1) -> str:
    return str(data_of(ask("certificates", "show", made.try_id(task, k), "--json"))["certificate"])


def test_show_names_everything_that_a_certificate_binds(ask: Callable[..., Any], made: Any) -> None:
    """By try: outcome, judge, grader, images, runtime, caps, parties, place in the log, notices."""
    ran = ask("certificates", "show", made.try_id("first"))
    assert ran.code == 0, ran.err
    for text in (
        "outcome     passed",
        "requested by publisher:acme, funded by publisher:acme, operated by lab:test",
        "judge       programmatic",
        "agent 111111111111, grader 111111111111",
        "agentWallMs 60000",
        "none through size",
        "index ",
        "counts     yes",
    ):
        assert text in ran.out, text
    assert ask("certificates", "show", made.try_id("first", 2)).code == 3, (
        "a failure does not count as a pass"
    )


@pytest.mark.parametrize(
    "how", ["digest", "digest-start", "own-id", "attempt", "attempt-number", "screening"]
)
def test_a_certificate_is_found_by_every_name_it_has(ask: Callable[..., Any], made: Any, how: str) -> None:
    """CLI-10: digest, id in the statement, try, attempt; a screening stands for its opening."""
    slot = made.try_id("second")
    whole = data_of(ask("certificates", "show", slot, "--json"))
    body = whole["statement"]["predicate"]
    names: dict[str, tuple[str, ...]] = {
        "digest": (whole["certificate"],),
        "digest-start": (whole["certificate"][:10],),
        "own-id": (body["certificateId"],),
        "attempt": (body["try"]["attemptId"],),
        "attempt-number": (slot, "--attempt", "2"),
        "screening": (made.screening,),
    }
    found = data_of(ask("certificates", "show", *names[how], "--json"))
    if how == "screening":
        assert found["type"] == "screening-opening/v1"
        assert body["screening"]["openingDigest"]["sha256"] == found["certificate"]
        return
    assert found["certificate"] == whole["certificate"]
    first = data_of(ask("certificates", "show", slot, "--attempt", "1", "--json"))
    assert first["statement"]["predicate"]["result"]["outcome"] == "platform_fault"
    assert body["try"]["replaces"]["sha256"] == first["certificate"]


def test_what_is_not_there_is_one_sentence_with_what_to_do(
    ask: Callable[..., Any], made: Any, tmp_path: Path
) -> None:
    """CLI-9; and nothing is created by looking."""
    for wanted in ("zzz", "0" * 64, "01ZZZZZZZZZZZZZZZZZZZZZZZZ", "not an id"):
        ran = ask("certificates", "show", wanted)
        assert (ran.code, ran.out) == (2, "")
        assert "there is no certificate, try or screening" in ran.err and "next: " in ran.err
    assert ask("certificates", "show", made.try_id("first"), "--attempt", "7").code == 2


def test_an_empty_home_stays_empty(cli: Any, tmp_path: Path) -> None:
    """`certificates` on a home where nothing was screened."""
    for words in (("show", "x"), ("export", "x"), ("notice", "x", "--kind", "correction", "--reason", "y")):
        ran = cli("certificates", *words, home=tmp_path / "none")
        assert ran.code == 2 and "nothing was screened" in ran.err
    assert not (tmp_path / "none").exists()


def test_exported_bundles_verify_for_a_stranger(
    ask: Callable[..., Any], cli: Any, made: Any, tmp_path: Path
) -> None:
    """One try, one screening, everything with evidence: verified with nothing but what was handed over."""
    slot = made.try_id("first")
    single = data_of(ask("certificates", "export", slot, "--json"))["files"][0]
    assert single == "first.try1.attempt1.trybundle.json"
    whole = data_of(ask("certificates", "export", made.screening, "--json"))["files"][0]
    assert whole == f"{made.screening}.zip"
    ran = ask("certificates", "export", made.screening, "--evidence", "--out", "given", "--json")
    given = data_of(ran)
    assert (ran.code, given["withheld"], given["missing"]) == (0, 5, [])
    root, nowhere = Path("given/trust-root.json"), tmp_path / "nowhere"
    stranger = ("--trust-root", str(root))
    for path, code in ((single, 0), (whole, 0), *((one, None) for one in given["files"][:-1])):
        ran = cli("verify", path, *stranger, "--no-evidence", "--json", home=nowhere)
        found = data_of(ran)
        assert found["notices"]["through"] == found["log"]["size"] == 7, path
        assert code is None or ran.code == code
        assert found["authentic"] == found["complete"] == "yes"
    ran = cli("verify", "given/screening.zip", *stranger, "--evidence", "given/evidence", home=nowhere)
    assert ran.code == 0 and "none through size 7" in ran.out
    assert "10 checked, 5 withheld, 0 missing" in ran.out


def test_withheld_files_are_never_exported(ask: Callable[..., Any], made: Any, asset: ModuleType) -> None:
    """Hidden tests stay hidden, salts included."""
    given = data_of(ask("certificates", "export", made.screening, "--evidence", "--out", "given", "--json"))
    files = [path for path in Path("given").rglob("*") if path.is_file()]
    assert not [path for path in files if asset.HIDDEN in path.read_bytes()]
    assert not (Path("given") / "evidence" / "withheld").exists()
    assert len(files) == len(given["files"]) + given["evidence"], "and nothing that nobody named"


def test_missing_evidence_is_said(ask: Callable[..., Any], made: Any, tmp_path: Path) -> None:
    """What is no longer in the store is named, and the export is not called whole."""
    manifest = data_of(ask("certificates", "show", made.try_id("first"), "--json"))["statement"]["subject"]
    store = tmp_path / "home" / "evidence" / "sha256"
    name = manifest[0]["digest"]["sha256"]
    listed = json.loads((store / name[:2] / name[2:]).read_bytes())["files"]
    lost = next(file["sha256"] for file in listed if file["role"] == "command-log")
    (store / lost[:2] / lost[2:]).unlink()
    ran = ask("certificates", "export", made.screening, "--evidence", "--out", "given", "--json")
    assert (ran.code, data_of(ran)["missing"]) == (3, [lost])


def test_an_export_replaces_an_export_and_nothing_else(ask: Callable[..., Any], made: Any) -> None:
    """Again gives the same bytes; a file that is no bundle is left alone."""
    slot = made.try_id("first")
    assert ask("certificates", "export", slot, "--out", "one.json").code == 0
    before = Path("one.json").read_bytes()
    assert ask("certificates", "export", slot, "--out", "one.json").code == 0
    assert Path("one.json").read_bytes() == before
    Path("notes.txt").write_text("mine")
    ran = ask("certificates", "export", slot, "--out", "notes.txt")
    assert ran.code == 2 and Path("notes.txt").read_text() == "mine"
    ran = ask("certificates", "export", made.screening, "--everything", "--out", "notes.txt")
    assert ran.code == 2 and "is a file" in ran.err


SUPERSEDED = ("--kind", "supersession", "--reason", "graded again by hand")


def test_a_notice_withdraws_a_pass_everywhere(
    ask: Callable[..., Any], cli: Any, made: Any, tmp_path: Path
) -> None:
    """Issued, logged, listed on export; score, verify, show and audit all see it."""
    slot, home = made.try_id("first"), Home(tmp_path / "home")
    before = data_of(ask("score", made.screening, "--json"))["card"]
    ran = ask("certificates", "notice", slot, *SUPERSEDED, "--yes", "--json")
    issued = data_of(ran)
    assert (ran.code, issued["index"], issued["fresh"]) == (0, 7, True)
    card = data_of(ask("score", made.screening, "--json"))["card"]
    assert card["counts"]["left_out_certificate"] == 1 and before["counts"]["left_out_certificate"] == 0
    assert float(card["pack_score"]["display"]) < float(before["pack_score"]["display"])
    assert ask("certificates", "show", slot).code == 3
    bundle = f"certificates/{made.screening}/screening.zip"
    ran = ask("verify", str(home.root / bundle), "--no-evidence")
    assert ran.code == 3
    assert "notice      supersession of " in ran.out and ": graded again by hand" in ran.out
    assert ask("certificates", "export", slot, "--out", "one.json").code == 0
    stranger = ("--trust-root", str(home.trust_root))
    ran = cli("verify", "one.json", *stranger, "--no-evidence", home=tmp_path / "nowhere")
    assert ran.code == 3 and "COUNTS      NO" in ran.out and "1 through size 8" in ran.out
    root = trust.load(home.trust_root)
    (origin,) = root.logs
    found = audit_log(home.log / origin, root)
    assert (found.exit_code, len(found.notices), found.withdrawn) == (0, 1, 1)


def test_an_old_bundle_is_answered_by_the_published_log(
    ask: Callable[..., Any], cli: Any, made: Any, tmp_path: Path
) -> None:
    """`--log`: a bundle from before the notice, and one that was made to leave it out."""
    slot, home = made.try_id("first"), Home(tmp_path / "home")
    assert ask("certificates", "export", slot, "--out", "old.json").code == 0
    assert ask("certificates", "notice", slot, *SUPERSEDED, "--yes").code == 0
    assert ask("certificates", "export", slot, "--out", "new.json").code == 0
    stranger = ("--trust-root", str(home.trust_root), "--no-evidence", "--json")
    nowhere = tmp_path / "nowhere"
    assert cli("verify", "old.json", *stranger, home=nowhere).code == 0, "nobody could know"
    seen = cli("verify", "old.json", *stranger, "--log", str(home.log), home=nowhere)
    assert (seen.code, data_of(seen)["reasons"]) == (3, ["superseded"])
    lying = json.loads(Path("new.json").read_bytes())
    lying["notices"]["envelopes"] = []
    text = json.dumps(lying, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    Path("lying.json").write_text(text)
    assert cli("verify", "lying.json", *stranger, home=nowhere).code == 0
    seen = cli("verify", "lying.json", *stranger, "--log", str(home.log), home=nowhere)
    assert (seen.code, data_of(seen)["reasons"]) == (1, ["notice-suppressed", "superseded"])
    ran = cli("verify", "old.json", *stranger, "--log", str(tmp_path / "no"), home=nowhere)
    assert ran.code == 2 and "there is no log" in ran.err


def test_the_same_notice_again_changes_nothing(
    ask: Callable[..., Any], made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idempotent whenever it is repeated; another reason is another notice."""
    slot = made.try_id("first")
    now = noticing._now_ms()
    clock = iter(range(now, now + 100_000, 5_000))
    monkeypatch.setattr(noticing, "_now_ms", lambda: next(clock))
    first = data_of(ask("certificates", "notice", slot, *SUPERSEDED, "--yes", "--json"))
    again = data_of(ask("certificates", "notice", slot, *SUPERSEDED, "--yes", "--json"))
    assert (again["digest"], again["index"], again["issued_at"]) == (
        first["digest"],
        first["index"],
        first["issued_at"],
    )
    assert (first["fresh"], again["fresh"]) == (True, False)
    other = ask(
        "certificates", "notice", slot, "--kind", "correction", "--reason", "again", "--yes", "--json"
    )
    assert data_of(other)["index"] == first["index"] + 1


@pytest.mark.parametrize("step", ["sign", "enter", "refresh"])
def test_a_crash_while_noticing_is_finished_by_the_same_command(
    ask: Callable[..., Any], made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Dead after signing, after logging, or before the bundle is written: never lost, never doubled."""
    slot, home = made.try_id("first"), Home(tmp_path / "home")

    def dies(*_arguments: Any, **_named: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        if step == "refresh":
            broken.setattr(noticing, "refresh", dies)
        else:
            from orchestrator.certificates.logbook import Logbook

            genuine = Logbook.enter

            def enter(self: Logbook, envelope: bytes) -> int:
                if step == "enter":
                    genuine(self, envelope)
                return int(dies())

            broken.setattr(Logbook, "enter", enter)
        assert ask("certificates", "notice", slot, *SUPERSEDED, "--yes").code == 130
    assert ask("certificates", "notice", slot, *SUPERSEDED, "--yes").code == 0
    root = trust.load(home.trust_root)
    (origin,) = root.logs
    found = audit_log(home.log / origin, root)
    assert (found.exit_code, found.size, len(found.notices)) == (0, 8, 1)
    bundle = home.certificates / made.screening / "screening.zip"
    assert ask("verify", str(bundle), "--no-evidence").code == 3


def test_dry_run_shows_and_does_nothing(ask: Callable[..., Any], made: Any, tmp_path: Path) -> None:
    """The whole statement; no signature, no log entry."""
    before = sorted(path.name for path in (tmp_path / "home" / "log").rglob("*"))
    words = ("certificates", "notice", made.screening, "--kind", "contamination", "--reason", "leaked")
    ran = ask(*words, "--dry-run")
    assert (
        ran.code == 0 and "screening" in ran.out and "leaked" in ran.out and "nothing was signed" in ran.err
    )
    shown = data_of(ask(*words, "--dry-run", "--json"))
    assert shown["statement"]["predicate"]["kind"] == "contamination"
    assert shown["statement"]["subject"][0]["name"] == "opening.json"
    assert sorted(path.name for path in (tmp_path / "home" / "log").rglob("*")) == before


def test_nobody_is_asked_where_there_is_nobody(ask: Callable[..., Any], made: Any) -> None:
    """Without a terminal and without --yes nothing is published."""
    ran = ask("certificates", "notice", made.screening, "--kind", "contamination", "--reason", "leaked")
    assert ran.code == 2 and "--yes" in ran.err


def test_whole_screening_and_key(ask: Callable[..., Any], made: Any, tmp_path: Path) -> None:
    """A screening withdraws every pass; a key event is listed and withdraws nothing."""
    root = trust.load(tmp_path / "home" / "trust-root.json")
    (keyid,) = root.keys
    rotated = ("--kind", "key-event", "--event", "rotated", "--reason", "yearly")
    assert ask("certificates", "notice", keyid[:8], *rotated, "--yes").code == 0
    ran = ask("certificates", "show", made.try_id("first"))
    assert ran.code == 0 and "key-event of " in ran.out
    words = ("--kind", "contamination", "--reason", "the pack was public")
    assert ask("certificates", "notice", made.screening, *words, "--yes").code == 0
    ran = ask("score", made.screening, "--json")
    assert ran.code == 3
    assert data_of(ran)["card"]["counts"]["left_out_certificate"] == 3
    ran = ask("board", "--json")
    assert "notices in the log withdraw 3 of its passes" in ran.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--kind", "correction", "--reason", "caf\u00e9"), "plain ASCII"),
        (("--kind", "correction", "--reason", "x", "--event", "rotated"), "--event"),
        (("--kind", "key-event", "--reason", "x"), "--event"),
        (("--kind", "correction", "--reason", "x", "--replaced-by", "0" * 64), "--replaced-by"),
        (("--kind", "key-event", "--event", "rotated", "--reason", "x"), "certificate key"),
    ],
)
def test_what_cannot_be_said_is_refused_before_anything_is_signed(
    ask: Callable[..., Any], made: Any, words: tuple[str, ...], told: str
) -> None:
    """One sentence each, exit 2."""
    ran = ask("certificates", "notice", made.try_id("first"), *words, "--yes")
    assert ran.code == 2 and told in ran.err


def test_replaced_by_names_another_certificate(ask: Callable[..., Any], made: Any) -> None:
    """By any of its names; never itself."""
    slot = made.try_id("first")
    other = digest(ask, made, "second", 2)
    words = ("certificates", "notice", slot, *SUPERSEDED, "--dry-run", "--json", "--replaced-by")
    shown = data_of(ask(*words, made.try_id("second", 2)))
    assert shown["statement"]["predicate"]["replacedBy"] == {"sha256": other}
    assert ask(*words, slot).code == 2


def test_an_old_trust_root_is_refused_by_the_usage_that_it_lacks(
    ask: Callable[..., Any], made: Any, tmp_path: Path
) -> None:
    """A home from before there were notices: the sentence names what helps, and that does help."""
    from orchestrator.certificates import founding
    from orchestrator.certificates.keys import SigningKey
    from orchestrator.custody import passphrase
    from orchestrator.custody.roots import SEEN_FILE

    home = Home(tmp_path / "home")
    known = trust.load(home.trust_root)
    secret = passphrase.path_of(home.keys)
    key = SigningKey.load(home.keys / "certificate.pem", secret)
    log = SigningKey.load(home.keys / "log.pem", secret)
    (origin,) = known.logs
    entry = founding.key_entry(
        key.public,
        usages=["screening-opening/v1", "try-certificate/v1", "screening-summary/v1"],
        not_before="2020-01-01T00:00:00Z",
        not_after="2100-01-01T00:00:00Z",
        log=origin,
    )
    raw = founding.build(
        [SigningKey.load(home.keys / "root.pem", secret)],
        [entry],
        issuer=known.issuer,
        issued_at=known.issued_at,
        expires_at=known.expires_at,
        logs=[founding.log_entry(origin, log.public)],
    )
    home.trust_root.write_bytes(raw)
    (home.keys / SEEN_FILE).unlink()
    ran = ask("certificates", "notice", made.try_id("first"), *SUPERSEDED, "--yes")
    assert ran.code == 1
    assert "lists no usage notice/v1" in ran.err and "assize keys rotate" in ran.err
    status = json.loads(ask("log", "status", "--json").out)
    for step in (("rotate", "--at", str(status["logs"][0]["size"])), ("sign", "--yes"), ("publish", "--yes")):
        assert ask("keys", *step).code == 0
    assert ask("certificates", "notice", made.try_id("first"), *SUPERSEDED, "--yes").code == 0


def test_a_private_screening_has_evidence_and_nothing_signed(cli: Any, hidden: Any, tmp_path: Path) -> None:
    """Seed 003: no opening, certificate, log entry, bundle or score; every command says so."""
    home = hidden.home
    installation = Installation.open(home)
    try:
        assert violations(installation.ledger) == []
        from orchestrator.ledger.records import certificates

        assert certificates(installation.ledger, hidden.screening) == []
    finally:
        installation.close()
    assert not [path for path in home.log.rglob("*") if path.is_file()] if home.log.exists() else True
    assert not list(home.certificates.iterdir())
    slot = hidden.try_id("first")
    for words in (
        ("certificates", "export", hidden.screening),
        ("certificates", "export", slot),
        ("certificates", "show", slot),
        ("certificates", "notice", slot, *SUPERSEDED, "--yes"),
        ("score", hidden.screening),
    ):
        ran = cli(*words, home=home.root)
        assert (ran.code, ran.out) == (2, ""), words
        assert "is private: it has evidence, and no certificate was or will be issued" in ran.err
        assert len(ran.err.strip().splitlines()) == 2
    ran = cli("status", home=home.root)
    assert "private" in ran.out
    ran = cli("status", hidden.screening, home=home.root)
    assert "none, ever: private" in ran.out and "score" not in ran.out.partition("next: ")[2]
    assert data_of(cli("tries", hidden.screening, "--json", home=home.root))["visibility"] == "private"
    assert "no certificate, no score" in cli("try", slot, home=home.root).out
    assert cli("try", slot, "--transcript", home=home.root).code == 0, "its evidence is there for the owner"
    assert hidden.screening not in cli("board", "--json", home=home.root).out


def test_what_was_private_stays_private(hidden: Any, tmp_path: Path) -> None:
    """Neither the ledger nor the signing side turns it public later."""
    import sqlalchemy as sa

    from orchestrator.screenings.opening import Sponsors
    from orchestrator.screenings.private import PrivateError

    # Both rules hold; which one speaks first is the database's choice.
    refused = "keeps what it was planned as|a closed screening never changes"
    copy = copy_home(hidden.home.root, tmp_path / "home")
    ledger = open_ledger(copy.database_url)
    try:
        with (
            pytest.raises(sa.exc.DBAPIError, match=refused),
            ledger.unit_of_work() as connection,
        ):
            connection.execute(sa.text("UPDATE screening SET conditions = '{\"tries\": 2}'"))
    finally:
        ledger.close()
    installation = Installation.open(copy)
    try:
        with pytest.raises(PrivateError):
            type(hidden)(copy, hidden.pack, hidden.screening).certifier(installation).open(
                Sponsors("a:b", "a:b", "a:b")
            )
    finally:
        installation.close()


def test_bundles_name_one_statement_each(ask: Callable[..., Any], made: Any) -> None:
    """The digest that is shown is that of the envelope in the bundle, whoever computes it."""
    import base64

    ask("certificates", "export", made.try_id("first"), "--out", "one.json")
    envelope = base64.b64decode(json.loads(Path("one.json").read_bytes())["envelope"])
    opened = dsse.decode(envelope, dsse.STATEMENT_TYPE, 1 << 20)
    assert dsse.statement_digest(opened.signed_bytes()) == digest(ask, made)
