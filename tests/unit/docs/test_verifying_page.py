"""docs/verifying.md is true: its commands verify what the product made and fail on every tampered copy."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from orchestrator.certificates import schema
from orchestrator.certificates.founding import build, key_entry, log_entry
from orchestrator.certificates.keys import SigningKey
from orchestrator.cli.main import main
from orchestrator.verification.errors import REASONS

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "verifying.md").read_text()
SCRIPT: Final = "set -eu\n" + "".join(re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
ASSET: Final = ROOT / "tests" / "assets" / "certificates" / "certified_home.py"
TOOLS: Final = ("sh", "jq", "openssl", "sha256sum", "base64", "python3")

pytestmark = pytest.mark.only_on("sqlite", "a bundle that was handed over says nothing of its lab's database")


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a lab hands over: one bundle, its evidence and the trust root, as `assize` exports them."""
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        pytest.skip(f"the page needs standard tools that are not here: {', '.join(absent)}")
    spec = importlib.util.spec_from_file_location("certified_home", ASSET)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("certified_home", module)
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("verifying")
    made = module.make_home(folder)
    out = folder / "given"
    with pytest.raises(SystemExit) as end:
        words = ["certificates", "export", made.try_id("second"), "--evidence", "--out", str(out)]
        main(["--home", str(made.home.root), *words])
    assert end.value.code == 0
    (bundle,) = (out / "tries").iterdir()
    bundle.rename(out / "one.trybundle.json")
    shutil.copytree(made.home.keys, folder / "keys")
    return out


def run(folder: Path, pin: str | None = None) -> subprocess.CompletedProcess[str]:
    """The page's commands, one after the other, in a folder."""
    known = pin or hashlib.sha256((folder / "trust-root.json").read_bytes()).hexdigest()
    environment = {"PATH": os.environ["PATH"], "PIN": known, "LC_ALL": "C.UTF-8"}
    if "PYENV_ROOT" in os.environ:
        environment["PYENV_ROOT"] = os.environ["PYENV_ROOT"]
    return subprocess.run(
        ["sh", "-c", SCRIPT], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def test_the_commands_verify_a_bundle_of_the_product(given: Path, tmp_path: Path) -> None:
    """A second attempt after a platform fault, in a log of seven entries."""
    folder = tmp_path / "it"
    shutil.copytree(given, folder)
    ran = run(folder)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("Signature Verified Successfully") == 2
    assert "notices: none through size 7" in ran.stdout
    assert re.search(r"logged: entry [0-6] of 7, assize.local/unnamed-lab/log/20[0-9]{2}", ran.stdout)
    assert "second try 1/2 attempt 2" in ran.stdout and "passed: all_checks_passed" in ran.stdout


@pytest.fixture(scope="module")
def rotated(given: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same lab after two more versions of its trust root: a new key certifies a new log's entries."""
    folder = tmp_path_factory.mktemp("rotated")
    shutil.copytree(given.parent / "home", folder / "home")
    out, words = folder / "given", ["--home", str(folder / "home")]
    for step in (
        ["keys", "rotate", "--at", "7"],
        ["keys", "sign", "--yes"],
        ["keys", "publish", "--yes"],
        ["keys", "ceremony", "--generate", "2", "--threshold", "2"],
        ["keys", "sign", "--yes"],
        ["keys", "publish", "--yes"],
        ["certificates", "export", _exported_try(given), "--evidence", "--out", str(out)],
    ):
        with pytest.raises(SystemExit) as end:
            main([*words, *step])
        assert end.value.code == 0, step
    (bundle,) = (out / "tries").iterdir()
    bundle.rename(out / "one.trybundle.json")
    return out


def _exported_try(given: Path) -> str:
    """The id of the try in the bundle."""
    data = json.loads((given / "one.trybundle.json").read_bytes())
    envelope = json.loads(base64.b64decode(data["envelope"]))
    return str(json.loads(base64.b64decode(envelope["payload"]))["predicate"]["try"]["id"])


def _shifted(data: dict[str, Any]) -> None:
    data["trustRootChain"].pop(0)


def _unsigned(data: dict[str, Any]) -> None:
    """The version that needs two new root keys, with the signature of one of them taken away."""
    envelope = json.loads(base64.b64decode(data["trustRootChain"][1]))
    document = json.loads(base64.b64decode(envelope["payload"]))
    new = {key["keyid"] for key in document["root"]["keys"]}
    signed = [one for one in envelope["signatures"] if one["keyid"] in new]
    envelope["signatures"].remove(signed[0])
    data["trustRootChain"][1] = base64.b64encode(json.dumps(envelope).encode()).decode()


def test_the_commands_follow_later_versions_of_the_trust_root(rotated: Path, tmp_path: Path) -> None:
    """From the pinned version 1 to version 3; a version left out or signed by too few is refused."""
    folder = tmp_path / "it"
    shutil.copytree(rotated, folder)
    ran = run(folder)
    assert ran.returncode == 0, ran.stderr
    assert json.loads((folder / "root.json").read_bytes())["version"] == 3
    assert sorted(path.name for path in rotated.glob("trust-root*")) == [
        "trust-root.2.json",
        "trust-root.3.json",
        "trust-root.json",
    ]
    for number, edit in enumerate((_shifted, _unsigned)):
        folder = tmp_path / str(number)
        shutil.copytree(rotated, folder)
        _bundle(edit)(folder)
        assert run(folder).returncode != 0


def _bundle(edit: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "one.trybundle.json"
        data = json.loads(path.read_bytes())
        edit(data)
        path.write_text(json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False))

    return change


def _within(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    """Replace bytes inside a base64 member of the bundle."""

    def edit(data: dict[str, Any]) -> None:
        raw = base64.b64decode(data[name])
        assert old in raw
        data[name] = base64.b64encode(raw.replace(old, new, 1)).decode()

    return _bundle(edit)


def _statement(old: bytes, new: bytes) -> Callable[[Path], None]:
    """Replace bytes inside the signed payload."""

    def edit(data: dict[str, Any]) -> None:
        envelope = json.loads(base64.b64decode(data["envelope"]))
        payload = base64.b64decode(envelope["payload"])
        assert old in payload
        envelope["payload"] = base64.b64encode(payload.replace(old, new, 1)).decode()
        data["envelope"] = base64.b64encode(json.dumps(envelope).encode()).decode()

    return _bundle(edit)


def _proof(pattern: str, new: str) -> Callable[[Path], None]:
    def edit(data: dict[str, Any]) -> None:
        data["proof"], count = re.subn(pattern, new, data["proof"], count=1)
        assert count == 1

    return _bundle(edit)


def _evidence(folder: Path) -> None:
    path = sorted(path for path in (folder / "evidence" / "sha256").rglob("*") if path.is_file())
    for one in path:
        one.write_bytes(one.read_bytes() + b"!")


def _resigned(folder: Path) -> None:
    """The statement under a key of the attacker, and a trust root that lists it: only the pin shows that."""
    root_key, key, log = (SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2, 3))
    years: dict[str, Any] = {"not_before": "2020-01-01T00:00:00Z", "not_after": "2100-01-01T00:00:00Z"}
    raw = build(
        [root_key],
        [key_entry(key.public, log="attacker.example/log/2026", **years)],
        issuer="attacker.example/lab",
        issued_at=years["not_before"],
        expires_at=years["not_after"],
        logs=[log_entry("attacker.example/log/2026", log.public)],
    )
    (folder / "trust-root.json").write_bytes(raw)


TAMPERED: Final[dict[str, Callable[[Path], None]]] = {
    "outcome": _statement(b'"outcome":"passed"', b'"outcome":"failed"'),
    "cost": _statement(b'"costNusd":0', b'"costNusd":1'),
    "payload-type": _within("envelope", b"application/vnd.in-toto+json", b"application/vnd.in-toto+yaml"),
    "signature": _within("envelope", b'"sig":"', b'"sig":"AAAA'),
    "key": _within("envelope", b'"keyid":"', b'"keyid":"0'),
    "manifest": _within("manifest", b"agent/stdout.txt", b"agent/stdout.tx_"),
    "evidence": _evidence,
    "proof-index": _proof(r"\nindex \d+\n", "\nindex 0\n"),
    "proof-path": _proof(r"\n([A-Za-z0-9+/]{43}=)\n", "\n" + "A" * 43 + "=\n"),
    "proof-shorter": _proof(r"(index \d+\n)[A-Za-z0-9+/]{43}=\n", r"\1"),
    "proof-longer": _proof(r"(index \d+\n)", r"\1" + "A" * 43 + "=\n"),
    "checkpoint-size": _proof(r"\n7\n", "\n8\n"),
    "checkpoint-origin": _proof(r"assize.local/unnamed-lab", "assize.local/renamed-lab"),
    "no-proof": _bundle(lambda data: data.update(proof=None)),
    "trust-root": _resigned,
}


@pytest.mark.parametrize("name", TAMPERED)
def test_the_commands_fail_on_what_was_tampered_with(given: Path, tmp_path: Path, name: str) -> None:
    """The hash of the trust root is the one that was published; everything else is the attacker's."""
    folder = tmp_path / "it"
    shutil.copytree(given, folder)
    pin = hashlib.sha256((folder / "trust-root.json").read_bytes()).hexdigest()
    TAMPERED[name](folder)
    ran = run(folder, pin)
    assert ran.returncode != 0, ran.stdout


def test_a_stale_list_of_notices_is_said(given: Path, tmp_path: Path) -> None:
    """A list that ends before the certificate, and none at all, are both "unknown"."""
    for number, notices in enumerate(({"throughSize": 0, "envelopes": []}, None)):
        folder = tmp_path / str(number)
        shutil.copytree(given, folder)
        _bundle(lambda data, notices=notices: data.update(notices=notices))(folder)  # type: ignore[misc]
        ran = run(folder)
        assert ran.returncode == 0 and "notices: unknown" in ran.stdout


def test_every_reason_code_stands_under_its_exit_code() -> None:
    """The table of the page is the table of the code."""
    rows = dict(re.findall(r"^\| (\d) \| (`.*`) \|$", PAGE, re.MULTILINE))
    told = {int(code): set(re.findall(r"`([^`]+)`", cell)) for code, cell in rows.items()}
    known: dict[int, set[str]] = {}
    for code, rule in REASONS.items():
        known.setdefault(rule.exit_code, set()).add(code)
    assert told == known


def test_kinds_and_statements_are_all_there() -> None:
    """Closed lists, whole."""
    for name in (*schema.NOTICE_KINDS, *schema.PAYLOAD_LIMIT_BYTES):
        assert f"`{name}`" in PAGE
