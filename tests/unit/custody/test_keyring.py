"""Keys at rest: encrypted by default, the passphrase outside the home; freezing and destroying."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.certificates import founding
from orchestrator.certificates.errors import KeyFileError
from orchestrator.certificates.keys import SigningKey, is_encrypted
from orchestrator.custody import passphrase, publishing, steps
from orchestrator.custody.custodian import Custodian
from orchestrator.custody.errors import ChangeError, CustodyError, KeyFrozenError, KeyMissingError
from orchestrator.custody.keyring import FIRST_FILES, Keyring
from orchestrator.errors import AssizeError
from orchestrator.home import Home
from orchestrator.screenings.installation import Installation
from tests.assets.services.databases import copy_home

NOW_MS = 1_796_000_000_000


def found_plain(home: Home) -> None:
    """A home as it was made before keys were encrypted by default."""
    home.prepare()
    founding.create(home.keys, home.trust_root, issuer="lab.example/x", now_unix_ms=NOW_MS)


def first_use(home: Home) -> str:
    """The key that signs in a home that is used for the first time."""
    installation = Installation.open(home)
    try:
        return installation.signer().keyid
    finally:
        installation.close()


@pytest.mark.usefixtures("databases")
def test_keys_of_a_new_home_are_encrypted_and_the_passphrase_is_elsewhere(tmp_path: Path) -> None:
    """Nothing in the home opens the keys: with another configuration folder a copy of it is of no use."""
    home = Home(tmp_path / "home")
    first_use(home)
    for name in FIRST_FILES:
        assert is_encrypted(home.keys / name)
        assert stat.S_IMODE((home.keys / name).stat().st_mode) == 0o600
    found = passphrase.find(home.keys)
    assert found is not None and found.origin == "generated"
    assert home.root not in found.path.parents
    assert stat.S_IMODE(found.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(found.path.parent.stat().st_mode) == 0o700
    secret = found.path.read_bytes().strip()
    assert len(secret) >= 40
    for path in home.root.rglob("*"):
        assert not path.is_file() or secret not in path.read_bytes()


@pytest.mark.usefixtures("databases")
def test_a_copied_home_holds_no_usable_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another machine, where the configuration folder is another one: refused, and the file is named."""
    home = Home(tmp_path / "home")
    first_use(home)
    copy_home(home.root, tmp_path / "stolen")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "thief"))
    with pytest.raises(KeyFileError, match=str(tmp_path / "thief")):
        first_use(Home(tmp_path / "stolen"))


@pytest.mark.usefixtures("databases")
def test_the_operators_passphrase_file_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is generated then; without it the keys stay closed."""
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("a passphrase of somebody\n")
    monkeypatch.setenv(passphrase.VARIABLE, str(secret))
    home = Home(tmp_path / "home")
    keyid = first_use(home)
    assert not (home.keys / passphrase.NAME_FILE).exists()
    monkeypatch.delenv(passphrase.VARIABLE)
    with pytest.raises(KeyFileError, match="passphrase is missing or wrong"):
        first_use(home)
    monkeypatch.setenv(passphrase.VARIABLE, str(secret))
    assert first_use(home) == keyid


@pytest.mark.usefixtures("databases")
@pytest.mark.parametrize("text", ["", "short"])
def test_a_weak_passphrase_makes_no_key(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PKCS#8 slows guessing down by little, so length is asked for; nothing is left behind."""
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text(text)
    monkeypatch.setenv(passphrase.VARIABLE, str(secret))
    home = Home(tmp_path / "home")
    with pytest.raises(KeyFileError, match=r"empty|shorter"):
        first_use(home)
    assert not list(home.keys.glob("*.pem"))


@pytest.mark.parametrize(("named", "below"), [("relative/folder", ".config"), ("", ".config"), ("/x", "/x")])
def test_xdg_rules(named: str, below: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An unset, empty or relative XDG_CONFIG_HOME is ~/.config."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", named)
    assert passphrase.folder() == tmp_path / below / "assize" / "passphrases"


@pytest.mark.usefixtures("databases")
def test_a_configuration_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said with what to do; no plain key is made instead."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    home = Home(tmp_path / "home")
    with pytest.raises(CustodyError, match="no passphrase can be kept") as caught:
        first_use(home)
    assert caught.value.hint and passphrase.VARIABLE in caught.value.hint
    assert not list(home.keys.glob("*.pem"))


def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    """What a home remembers is a name, never a path."""
    (tmp_path / passphrase.NAME_FILE).write_text("../../../etc/passwd\n")
    with pytest.raises(CustodyError, match="names no passphrase"):
        passphrase.find(tmp_path)


@pytest.mark.usefixtures("databases")
def test_homes_with_plain_keys_go_on_working_and_can_be_encrypted(tmp_path: Path) -> None:
    """Their keys stay the same keys; encrypting again changes nothing."""
    home = Home(tmp_path / "home")
    found_plain(home)
    keyid = first_use(home)
    ring = Keyring(home.keys, lambda: passphrase.path_of(home.keys))
    assert all(entry.is_plain for entry in ring.entries())
    phrase = passphrase.provide(home.keys).path
    assert sorted(path.name for path in ring.encrypt(phrase)) == sorted(FIRST_FILES)
    assert ring.encrypt(phrase) == []
    assert all(entry.encrypted and entry.problem is None for entry in ring.entries())
    assert first_use(home) == keyid
    assert not [path for path in home.keys.iterdir() if path.name.startswith(".")]


@pytest.mark.usefixtures("databases")
def test_a_mixed_home_works(tmp_path: Path) -> None:
    """Stopped in the middle of encrypting: both kinds open."""
    home = Home(tmp_path / "home")
    found_plain(home)
    phrase = passphrase.provide(home.keys).path
    path = home.keys / founding.LOG_KEY_FILE
    SigningKey.load(path).encrypt(path, phrase)
    first_use(home)


def test_a_frozen_key_signs_nothing_until_it_is_thawed(lab: Any) -> None:
    """Whatever the marker says, or when it cannot be read."""
    keyid = next(iter(lab.newest.keys))
    ring = lab.custodian().keyring
    ring.freeze(keyid, "a test")
    with pytest.raises(KeyFrozenError, match="a test"):
        ring.signing(keyid)
    ring.freeze(keyid, "another reason")
    assert ring.frozen(keyid) == "a test" and ring.all_frozen() == {keyid: "a test"}
    (lab.home.keys / f"{keyid}.frozen").write_bytes(b"\xff")
    assert ring.frozen(keyid) == "it is frozen"
    assert ring.thaw(keyid) and not ring.thaw(keyid)
    assert ring.signing(keyid).keyid == keyid


def test_a_file_with_another_key_than_its_name_says(lab: Any) -> None:
    """A swapped file is noticed before anything is signed with it."""
    ring = lab.custodian().keyring
    phrase = passphrase.path_of(lab.home.keys)
    one, two = ring.generate(phrase), ring.generate(phrase)
    os.replace(lab.home.keys / f"{one.keyid}.pem", lab.home.keys / f"{two.keyid}.pem")
    with pytest.raises(CustodyError, match="holds the key"):
        ring.holder(two.keyid)
    with pytest.raises(KeyMissingError):
        ring.holder(one.keyid)


def test_destroying_overwrites_before_it_removes(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen through a second name of the same file: what is left is not the key."""
    ring = lab.custodian().keyring
    key = ring.generate(passphrase.path_of(lab.home.keys))
    path, other = lab.home.keys / f"{key.keyid}.pem", lab.home.root / "second-name"
    raw = path.read_bytes()
    os.link(path, other)
    assert publishing.destroy(lab.custodian(), key.keyid) == path.name
    assert not path.exists() and other.read_bytes() != raw and b"PRIVATE" not in other.read_bytes()
    with pytest.raises(KeyMissingError):
        publishing.destroy(lab.custodian(), key.keyid)


def _root(lab: Any) -> str:
    return str(next(iter(lab.newest.root_keys)))


def _certificate(lab: Any) -> str:
    return str(next(iter(lab.newest.keys)))


def _log(lab: Any) -> str:
    path = lab.home.keys / founding.LOG_KEY_FILE
    return SigningKey.load(path, passphrase.path_of(lab.home.keys)).keyid


def _drafted(lab: Any) -> str:
    draft = steps.rotate(lab.custodian())
    return str(draft.document["certificateKeys"][-1]["keyid"])


@pytest.mark.parametrize("which", [_root, _certificate, _log, _drafted])
def test_a_key_that_is_needed_is_not_destroyed(lab: Any, which: Callable[[Any], str]) -> None:
    """Root, certificate and log keys of the current version, and what a draft lists."""
    keyid = which(lab)
    with pytest.raises(ChangeError):
        publishing.destroy(lab.custodian(), keyid)
    assert lab.custodian().keyring.holds(keyid)


@pytest.mark.usefixtures("databases")
def test_a_ceremony_under_way_is_not_overtaken_by_first_use(tmp_path: Path) -> None:
    """A screening does not make a trust root of its own while the first one is a draft."""
    home = Home(tmp_path / "home")
    custodian = Custodian(home)
    steps.ceremony(custodian, [SigningKey.generate().public], 1, issuer="lab.example/x")
    with pytest.raises(AssizeError, match="still a draft"):
        first_use(home)
