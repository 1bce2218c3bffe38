"""Keys behind a real external program (openssl), and every way in which such a program can misbehave."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.certificates.keys import SigningKey
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.custody import passphrase, publishing, steps
from orchestrator.custody.command_key import SUFFIX, CommandKey
from orchestrator.custody.custodian import Custodian
from orchestrator.custody.errors import CustodyError, KeyCommandError
from orchestrator.custody.keyring import load_holder
from orchestrator.home import Home
from orchestrator.verification import ed25519

PYTHON = sys.executable


def openssl(*arguments: str) -> bytes:
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True).stdout


def wrapper(folder: Path, name: str = "kms") -> tuple[Path, bytes]:
    """A program of a few lines before a key that only openssl opens, and the raw public key."""
    folder.mkdir(parents=True, exist_ok=True)
    key = folder / f"{name}.pem"
    openssl("genpkey", "-algorithm", "ed25519", "-out", str(key))
    public = openssl("pkey", "-in", str(key), "-pubout", "-outform", "DER")[-32:]
    program = folder / f"{name}-sign"
    program.write_text(
        "#!/bin/sh\n"
        "# pkeyutl has to know the size of its input, so the message goes through a file.\n"
        "message=$(mktemp) || exit 1\n"
        "trap 'rm -f \"$message\"' EXIT\n"
        'cat > "$message"\n'
        f'openssl pkeyutl -sign -rawin -inkey {shlex.quote(str(key))} -in "$message"\n'
    )
    program.chmod(0o755)
    return program, public


def test_openssl_signs(tmp_path: Path) -> None:
    """Messages of any size; the signature verifies, and the file that stands for the key comes back."""
    program, public = wrapper(tmp_path)
    key = CommandKey.checked(public, [str(program)])
    for message in (b"x", bytes(300_000)):
        assert ed25519.verifies(ed25519.public_key(public), key.sign(message), message)
    path = tmp_path / f"{key.keyid}{SUFFIX}"
    path.write_bytes(key.encode())
    path.chmod(0o600)
    assert load_holder(path, None) == key
    path.chmod(0o644)
    with pytest.raises(Exception, match="open to other users"):
        load_holder(path, None)


def test_a_lab_whose_keys_never_lie_in_its_home(lab: Any, tmp_path: Path) -> None:
    """Rotation to a key behind a program: certificates are signed by it and verify."""
    program, public = wrapper(tmp_path / "hsm")
    key = CommandKey.checked(public, [str(program)])
    custodian = lab.custodian()
    path = custodian.keyring.adopt(key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    steps.rotate(custodian, at=0, to=key.keyid)
    lab.publish()
    result = verify_screening_bundle(lab.certify(lab.screenings[0]), lab.pinned)
    assert (result.exit_code, result.keyids) == (0, (key.keyid,))
    assert not (lab.home.keys / f"{key.keyid}.pem").exists()


def test_a_home_with_all_keys_behind_programs(tmp_path: Path) -> None:
    """Ceremony with root, certificate and log key in an HSM: no private key is ever in the home."""
    home = Home(tmp_path / "home")
    custodian = Custodian(home)
    made = []
    for name in ("root", "certificate", "log"):
        program, public = wrapper(tmp_path / "hsm", name)
        key = CommandKey.checked(public, [str(program)])
        with custodian.at_work():
            custodian.keyring.adopt(key)
        made.append(key)
    root, certificate, log = made
    steps.ceremony(
        custodian,
        [root.public],
        1,
        issuer="lab.example/x",
        certificate=certificate.keyid,
        log=log.keyid,
    )
    publishing.sign_here(custodian)
    assert publishing.publish(custodian).keys.keys() == {certificate.keyid}
    assert not list(home.keys.glob("*.pem")) and passphrase.find(home.keys) is None


def script(text: str) -> list[str]:
    return [PYTHON, "-c", f"import os, sys, time\n{text}"]


OTHER = (
    "from orchestrator.certificates.keys import SigningKey\n"
    "sys.stdout.buffer.write(SigningKey.from_seed(bytes(32)).sign(sys.stdin.buffer.read()))"
)
BAD = {
    "another key's signature": (OTHER, "not by key"),
    "zeros": ("sys.stdout.buffer.write(bytes(64))", "not by key"),
    "nothing": ("pass", "not 64 bytes"),
    "63 bytes": ("sys.stdout.buffer.write(bytes(63))", "not 64 bytes"),
    "65 bytes": ("sys.stdout.buffer.write(bytes(65))", "more than 64 bytes"),
    "base64": ("print('A' * 86 + '==')", "more than 64 bytes"),
    "100 MB": ("os.write(1, bytes(100)); [os.write(1, bytes(1 << 20)) for _ in range(100)]", "more than 64"),
    "an error": ("sys.stderr.write('slot 3 is locked'); sys.exit(7)", "ended with 7: slot 3 is locked"),
    "a signal": ("os.kill(os.getpid(), 9)", "ended with -9"),
    "much to complain": ("[os.write(2, bytes(1 << 20)) for _ in range(9)]; sys.exit(1)", "ended with 1"),
}


@pytest.mark.parametrize(("text", "told"), BAD.values(), ids=BAD.keys())
def test_what_a_program_must_not_answer(text: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One typed error that names the program; nothing that it said is used."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))
    public = ed25519_public()
    with pytest.raises(KeyCommandError, match=told) as caught:
        CommandKey.checked(public, script(text)).sign(b"message")
    assert PYTHON in caught.value.message


def ed25519_public() -> bytes:
    """A sound public key whose private half nobody of us uses."""
    return SigningKey.from_seed(b"1" * 32).public


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    """At the time limit the whole session goes, also a child that keeps the pipe open."""
    mark = tmp_path / "child"
    text = (
        "child = os.fork()\n"
        f"if child == 0:\n    open({str(mark)!r}, 'w').write(str(os.getpid()))\n    time.sleep(600)\n"
        "time.sleep(600)"
    )
    with pytest.raises(KeyCommandError, match="no signature within 1 s"):
        CommandKey.checked(ed25519_public(), script(text), 1).sign(b"message")
    if mark.exists() and (text := mark.read_text()):
        _wait_gone(int(text))


def test_a_program_that_leaves_a_child_with_the_pipe(tmp_path: Path) -> None:
    """The program is over, its child holds the output open: no signature is complete before its end."""
    mark = tmp_path / "child"
    text = (
        "if os.fork() == 0:\n"
        f"    open({str(mark)!r}, 'w').write(str(os.getpid()))\n    time.sleep(600)\n"
        f"while not os.path.exists({str(mark)!r}): time.sleep(0.01)\n"
        "os.write(1, bytes(64))"
    )
    with pytest.raises(KeyCommandError, match="no signature within 5 s"):
        CommandKey.checked(ed25519_public(), script(text), 5).sign(b"message")
    _wait_gone(int(mark.read_text()))


def _wait_gone(pid: int) -> None:
    """Until a process is dead: gone, or a zombie that nobody has collected."""
    path = Path(f"/proc/{pid}/stat")
    until = time.monotonic() + 30
    while path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until, "a child was left behind"
        os.sched_yield()


def test_a_program_that_does_not_read_its_input(tmp_path: Path) -> None:
    """A closed pipe is not our failure; the answer decides."""
    with pytest.raises(KeyCommandError, match="not by key"):
        CommandKey.checked(ed25519_public(), script("os.write(1, bytes(64))")).sign(bytes(1 << 20))


@pytest.mark.parametrize(
    ("command", "timeout"),
    [
        ([], 5),
        (["relative/program"], 5),
        (["openssl"], 5),
        ("/bin/sh -c true", 5),
        (["/bin/true", 7], 5),
        (["/bin/true\0"], 5),
        (["/bin/true"], 0),
        (["/bin/true"], 601),
        (["/bin/true"], "5"),
        (None, 5),
    ],
)
def test_commands_that_are_none(command: object, timeout: object) -> None:
    """A list of words that begins with an absolute path; no shell, no search path."""
    with pytest.raises(CustodyError):
        CommandKey.checked(ed25519_public(), command, timeout)


@pytest.mark.parametrize("public", [b"", bytes(31), bytes(32), b"\x01" + bytes(31)])
def test_public_keys_that_are_none(public: bytes) -> None:
    """The same filter as for the trust root: small order and wrong lengths."""
    with pytest.raises(CustodyError, match="cannot be used"):
        CommandKey.checked(public, ["/bin/true"])


def test_a_missing_program_is_one_sentence() -> None:
    """Named, with what to do."""
    with pytest.raises(KeyCommandError, match="cannot be started"):
        CommandKey.checked(ed25519_public(), ["/nonexistent/sign"]).sign(b"")


def test_a_key_that_does_not_sign_is_not_adopted(lab: Any) -> None:
    """It has to work once before the home relies on it."""
    ring = lab.custodian().keyring
    with pytest.raises(KeyCommandError):
        ring.adopt(CommandKey.checked(ed25519_public(), ["/bin/true"]))
    assert not list(lab.home.keys.glob(f"*{SUFFIX}"))


@pytest.mark.parametrize(
    "raw",
    [
        b"{}",
        b"[]",
        b'{"command":["/bin/true"],"public":"x","schema":"assize.command-key/1","timeoutSeconds":1}',
        b'{"command":["/bin/true"],"public":7,"schema":"assize.command-key/1","timeoutSeconds":1}',
        b'{"command":["/bin/true"],"public":"","schema":"assize.command-key/2","timeoutSeconds":1}',
        b'{ "command":[]}',
        b"\xff",
    ],
)
def test_damaged_command_files(tmp_path: Path, raw: bytes) -> None:
    """One error type for whatever the file holds."""
    path = tmp_path / f"x{SUFFIX}"
    path.touch(mode=0o600)
    path.write_bytes(raw)
    with pytest.raises(CustodyError):
        CommandKey.load(path)
