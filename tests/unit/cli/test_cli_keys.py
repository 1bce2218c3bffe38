"""`assize keys` from the command line: a whole life of a home, exit codes, and nothing done unasked."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.certificates import founding, trust
from orchestrator.certificates.keys import SigningKey, is_encrypted
from orchestrator.custody.custodian import Custodian
from orchestrator.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "lab"


@pytest.fixture
def keys(cli: Any, home: Path) -> Callable[..., Any]:
    """Runs `assize keys ..` with `--json` in the lab's home; the object, after checking the exit code."""

    def run(*arguments: str, code: int = 0) -> Any:
        ran = cli("keys", *arguments, "--json", home=home)
        assert ran.code == code, ran.err
        return json.loads(ran.out) if ran.out else ran.err

    return run


@pytest.fixture
def signers(cli: Any, tmp_path: Path) -> dict[str, Path]:
    """Three people with root keys on machines of their own."""
    made = {}
    for name in ("alice", "bob", "carol"):
        secret = tmp_path / f"{name}.txt"
        secret.touch(mode=0o600)
        secret.write_text(f"the passphrase of {name}\n")
        path = tmp_path / f"{name}.pem"
        ran = cli("keys", "new", "root", "--out", str(path), "--passphrase-file", str(secret))
        assert ran.code == 0, ran.err
        assert ran.out == (tmp_path / f"{name}.pem.pub").read_text() and is_encrypted(path)
        made[name] = path
    return made


def carry(cli: Any, home: Path, signers: dict[str, Path], *names: str) -> list[str]:
    """Carry the draft to the named signers; the paths of what they give back."""
    back = []
    for name in names:
        out = signers[name].with_suffix(".draft")
        shutil.copy(home / "keys" / "draft.json", out)
        secret = str(signers[name].with_suffix(".txt"))
        options = ["--key", str(signers[name]), "--passphrase-file", secret, "--yes"]
        ran = cli("keys", "sign", str(out), *options, home=home.with_name("none"))
        assert ran.code == 0, ran.err
        assert "draft of version" in ran.err  # what is signed is shown, also with --yes
        back.append(str(out))
    assert not home.with_name("none").exists()  # signing needs no home
    return back


def ceremony(cli: Any, keys: Any, home: Path, signers: dict[str, Path]) -> None:
    roots = [word for name in signers for word in ("--root", f"{signers[name]}.pub")]
    keys("ceremony", *roots, "--threshold", "2", "--issuer", "lab.example/x")
    keys("merge", *carry(cli, home, signers, "alice", "carol"))


def test_a_ceremony_with_keys_on_other_machines(
    cli: Any, keys: Any, home: Path, signers: dict[str, Path], tmp_path: Path
) -> None:
    """Draft, two of three signatures, publication, export; the home never holds a root key."""
    assert keys("status")["version"] is None
    ceremony(cli, keys, home, signers)
    assert keys("status")["draft"]["complete"] is True
    done = keys("publish", "--yes")
    exported = keys("export", str(tmp_path / "public"))
    assert exported["pin"] == exported["sha256"] == done["sha256"]
    (path,) = exported["files"]
    root = trust.load(Path(path), pin=exported["pin"])
    assert (root.version, root.issuer, root.threshold, len(root.root_keys)) == (1, "lab.example/x", 2, 3)
    found = keys("status")
    assert [one["held"] for one in found["root_keys"]] == [False] * 3
    assert [one["signs"] for one in found["certificate_keys"]] == [True]
    assert found["warnings"] == [] and found["draft"] is None


def test_another_root_set_needs_old_and_new_signers(
    cli: Any, keys: Any, home: Path, signers: dict[str, Path]
) -> None:
    """Carol goes, a key of the home comes: alice and bob of the old set sign for it."""
    ceremony(cli, keys, home, signers)
    keys("publish", "--yes")
    names = ("alice", "bob")
    roots = [word for name in names for word in ("--root", f"{signers[name]}.pub")]
    made = keys("ceremony", *roots, "--generate", "1", "--threshold", "3")
    assert not made["complete"]
    assert keys("sign", "--yes")["signed"] != []
    keys("merge", *carry(cli, home, signers, "carol"))
    assert "needs 2 signatures of the root keys of version 1, it has 1" in keys("publish", "--yes", code=1)
    keys("merge", *carry(cli, home, signers, "alice", "bob"))
    assert keys("publish", "--yes")["version"] == 2


def test_nothing_is_published_or_destroyed_unasked(
    cli: Any, keys: Any, home: Path, signers: dict[str, Path]
) -> None:
    """Without a terminal and without --yes: exit 2, and nothing has changed."""
    ceremony(cli, keys, home, signers)
    for command in (["publish"], ["discard"], ["sign"]):
        assert "nobody can be asked" in keys(*command, code=2)
    assert not (home / "trust-root.json").exists()
    keys("publish", "--yes")
    key = SigningKey.generate()
    key.save(home / "keys" / f"{key.keyid}.pem")
    assert keys("status")["unlisted"] == [key.keyid]
    assert "nobody can be asked" in keys("destroy", key.keyid[:10], code=2)
    assert (home / "keys" / f"{key.keyid}.pem").exists()
    keys("destroy", key.keyid[:10], "--yes")
    assert keys("status")["unlisted"] == []


def test_rotation_step_by_step_and_back(cli: Any, keys: Any, home: Path) -> None:
    """Every step but the last can be taken back, and status says what comes next."""
    keys("ceremony", "--generate", "1")
    keys("sign", "--yes")
    keys("publish", "--yes")
    made = keys("rotate", "--at", "7")
    assert keys("rotate", "--at", "7") == {**made, "did": made["did"]}  # asked again: the same draft
    assert keys("status")["next"][0].startswith("assize keys sign")
    done = keys("discard", "--yes")
    assert (done["version"], done["thawed"], len(done["unlisted"])) == (2, [], 1)
    keys("rotate", "--at", "7", "--to", done["unlisted"][0][:12])
    assert "is signed" not in cli("keys", "status", home=home).out
    keys("sign", "--yes")
    assert "is signed, so it is not changed" in keys("ceremony", "--generate", "2", code=1)
    assert keys("publish", "--yes")["version"] == 2
    old, new = (one["keyid"] for one in keys("status")["certificate_keys"])
    assert new == done["unlisted"][0]
    assert any(line.startswith(f"assize keys close {old[:8]}") for line in keys("status")["next"])
    keys("close", old[:12])
    keys("sign", "--yes")
    keys("publish", "--yes")
    assert "may still sign" in keys("destroy", old[:12], "--yes", code=2)


@pytest.mark.usefixtures("databases")
def test_revocation_freezes_and_discard_thaws(cli: Any, keys: Any, home: Path) -> None:
    """The freeze is there before the draft is signed, and a discarded draft takes it back."""
    keys("ceremony", "--generate", "1")
    keys("sign", "--yes")
    keys("publish", "--yes")
    (key,) = (one["keyid"] for one in keys("status")["certificate_keys"])
    assert "beyond" in keys("revoke", key[:12], "--from-index", "1", code=2)
    assert keys("status")["certificate_keys"][0]["frozen"] is None
    assert "--from-index" in keys("revoke", key[:12], code=2)
    assert keys("revoke", key[:12], "--from-index", "0")["frozen"] == key
    found = keys("status")
    assert found["certificate_keys"][0]["frozen"] and not found["certificate_keys"][0]["signs"]
    assert keys("discard", "--yes")["thawed"] == [key]
    assert keys("status")["certificate_keys"][0]["signs"]
    keys("revoke", key[:12], "--from-index", "0", "--reason", "loss")
    keys("sign", "--yes")
    (told,) = keys("publish", "--yes")["notices"]
    assert (told["keyid"], told["event"], told["problem"]) == (key, "revoked", None) and told["digest"]
    assert keys("recertify") == {"schema": "assize.keys-recertify/1", "recertified": [], "notices": []}
    assert "is revoked from 0 already" in keys("revoke", key[:12], "--from-index", "0", code=2)
    assert keys("affected") == {"schema": "assize.keys-affected/1", "affected": []}
    states = [(one["revoked_because"], one["signs"]) for one in keys("status")["certificate_keys"]]
    assert states == [("loss", False), (None, True)]


def test_a_frozen_key_without_a_draft_can_be_thawed(cli: Any, keys: Any, home: Path) -> None:
    """A signed draft stood in the way of the revocation: the freeze stays, and can be undone by name."""
    keys("ceremony", "--generate", "1")
    keys("sign", "--yes")
    keys("publish", "--yes")
    (key,) = (one["keyid"] for one in keys("status")["certificate_keys"])
    keys("rotate")
    keys("sign", "--yes")
    assert "is signed" in keys("new-log", code=1)
    assert keys("status")["certificate_keys"][0]["frozen"] is None  # no emergency: nothing is frozen for it
    assert "is signed" in keys("revoke", key[:12], "--from-index", "0", code=1)
    assert keys("status")["certificate_keys"][0]["frozen"]
    assert "discard" in keys("revoke", key[:12], "--undo", code=2)
    keys("discard", "--yes")
    assert keys("status")["certificate_keys"][0]["frozen"]
    assert keys("revoke", key[:12], "--undo") == {"schema": "assize.keys-revoke/1", "thawed": key}
    assert "is not frozen" in keys("revoke", key[:12], "--undo", code=2)
    assert keys("status")["certificate_keys"][0]["signs"]


def test_a_new_log_names_itself(keys: Any, home: Path) -> None:
    """The old one ends at its size, the new one has another name and keys of its own."""
    keys("ceremony", "--generate", "1", "--issuer", "lab.example/x")
    keys("sign", "--yes")
    keys("publish", "--yes")
    keys("new-log", "--origin", "lab.example/x/log/other")
    keys("sign", "--yes")
    keys("publish", "--yes")
    old, new = keys("status")["logs"]
    assert (old["final_size"], old["open"]) == (0, False)
    assert (new["origin"], new["final_size"], new["open"]) == ("lab.example/x/log/other", None, True)


def test_key_behind_a_program(cli: Any, keys: Any, home: Path, tmp_path: Path) -> None:
    """`keys command` takes the program after `--`, tries it, and rotation uses it."""
    private = tmp_path / "kms.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(private)], check=True)
    public = tmp_path / "kms.pub"
    asked = ["openssl", "pkey", "-in", str(private), "-pubout", "-outform", "DER"]
    public.write_bytes(subprocess.run(asked, check=True, capture_output=True).stdout[-32:])
    program = tmp_path / "sign"
    program.write_text(
        '#!/bin/sh\nm=$(mktemp)\ncat > "$m"\n'
        f'openssl pkeyutl -sign -rawin -inkey {private} -in "$m"\nrm "$m"\n'
    )
    program.chmod(0o755)
    keys("ceremony", "--generate", "1")
    keys("sign", "--yes")
    keys("publish", "--yes")
    # What follows `--` belongs to the program, so --json stands before it.
    command = ["keys", "command", "--json", "--public", str(public), "--", str(program), "--slot", "3"]
    ran = cli(*command, home=home)
    made = json.loads(ran.out)
    assert made["command"] == [str(program), "--slot", "3"]
    keys("rotate", "--at", "0", "--to", made["keyid"][:12])
    keys("sign", "--yes")
    keys("publish", "--yes")
    assert [one["signs"] for one in keys("status")["certificate_keys"]] == [False, True]
    ran = cli("keys", "command", "--public", str(public), "--", "/bin/true", home=home)
    assert ran.code == 1 and "not 64 bytes" in ran.err


def test_encrypt_a_home_of_old(cli: Any, keys: Any, home: Path) -> None:
    """Doctor names the plain keys and the command; afterwards it says where the passphrase is."""
    old = Home(home).prepare()
    founding.create(old.keys, old.trust_root, issuer="lab.example/x", now_unix_ms=1_796_000_000_000)

    def row() -> dict[str, str]:
        checks = json.loads(cli("doctor", "--json", home=home).out)["checks"]
        found: dict[str, str] = next(one for one in checks if one["check"] == "key passphrase")
        return found

    assert (row()["health"], row()["mend"]) == ("warn", "assize keys encrypt")
    done = keys("encrypt")
    assert sorted(done["encrypted"]) == ["certificate.pem", "log.pem", "root.pem"]
    assert row()["health"] == "ok" and done["passphrase"] in row()["detail"]
    assert "without it the keys are lost" in row()["detail"]
    assert keys("encrypt")["encrypted"] == []
    Path(done["passphrase"]).unlink()
    assert row()["health"] == "missing"


def test_wrong_input_is_one_sentence(cli: Any, keys: Any, home: Path, tmp_path: Path) -> None:
    """Unknown keys, public lines of another role, files that are no draft, a home without a trust root."""
    for command in (["rotate"], ["close", "ab"], ["new-log"], ["affected"], ["export", str(tmp_path / "p")]):
        assert "no trust root yet" in keys(*command, code=2)
    secret = tmp_path / "s.txt"
    secret.touch(mode=0o600)
    secret.write_text("a long enough passphrase")
    out = tmp_path / "log.pem"
    assert "no passphrase is named" in keys("new", "log", "--out", str(out), code=2)
    keys("new", "log", "--out", str(out), "--passphrase-file", str(secret))
    assert "never overwritten" in keys(
        "new", "log", "--out", str(out), "--passphrase-file", str(secret), code=1
    )
    assert "a log key, a root key is needed" in keys("ceremony", "--root", f"{out}.pub", code=1)
    (tmp_path / "x.pub").write_text("assize-key root ed25519 00 AAAA\n")
    assert "no sound Ed25519 key" in keys("ceremony", "--root", str(tmp_path / "x.pub"), code=1)
    keys("ceremony", "--generate", "1")
    assert "cannot be read" in keys("merge", str(tmp_path / "absent"), code=2)
    (tmp_path / "x.json").write_text("{}")
    assert "cannot be read" in keys("merge", str(tmp_path / "x.json"), code=1)
    assert "name the draft and --key" in keys("sign", str(tmp_path / "x.json"), code=2)
    assert "no certificate key" not in cli("keys", "status", home=home).out
    keys("sign", "--yes")
    keys("publish", "--yes")
    assert "there is no certificate key ffff" in keys("close", "ffff", code=2)
    assert Custodian(Home(home)).roots.current().version == 1
