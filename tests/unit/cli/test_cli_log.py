"""`assize log`: status, the way to a witness and back, and a copy that can be served."""

from __future__ import annotations

import base64
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.certificates import trust
from orchestrator.certificates.logbook import Logbook
from orchestrator.cli import exits
from orchestrator.cli.main import main
from orchestrator.home import Home
from orchestrator.log.checkpoint import Checkpoint

ASSETS = Path(__file__).resolve().parents[2] / "assets"
LATER = 1_790_200_000


def load(name: str, path: Path) -> ModuleType:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="module")
def lab() -> Any:
    return load("certificate_world", ASSETS / "certificates" / "certificate_world.py")


@pytest.fixture(scope="module")
def witnesses() -> Any:
    return load("log_world", ASSETS / "log" / "log_world.py")


class Lab:
    """A home with a log of three openings, under a trust root that asks for two witnesses of three."""

    def __init__(self, lab: Any, witnesses: Any, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.home, self.origin, self._capfd = Home(folder / "home"), lab.ORIGIN, capfd
        self.home.root.mkdir()
        self.first, self.second = (
            witnesses.Witness("w1.example/a"),
            witnesses.PostQuantumWitness("w2.example/b"),
        )
        lines = [f"witness {name} {one.key.vkey}" for name, one in (("w1", self.first), ("w2", self.second))]
        policy = "\n".join([*lines, "group two all w1 w2", "quorum two", ""])
        self.home.trust_root.write_bytes(lab.trust_root(logged=True, witness_policy=policy))
        root = trust.load(self.home.trust_root)
        self.logbook = Logbook(self.home.log, self.home.log_state, root, lambda: lab.key("log"))
        self.world = lab.World(folder / "store")
        for name in ("a", "b", "c"):
            self.enter(name)

    def enter(self, name: str) -> None:
        self.logbook.enter(self.world.screening(name).opening.envelope)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of one command."""
        with pytest.raises(SystemExit) as ended:
            main(["--home", str(self.home.root), *arguments])
        out = self._capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out.out, out.err

    def data(self, *arguments: str) -> dict[str, Any]:
        code, out, _ = self.run(*arguments, "--json")
        found: dict[str, Any] = json.loads(out)
        assert code == exits.DONE
        return found


@pytest.fixture
def place(lab: Any, witnesses: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Lab:
    return Lab(lab, witnesses, tmp_path, capfd)


def test_to_a_witness_and_back(place: Lab, tmp_path: Path) -> None:
    """Export, two answers in both forms, and from the quorum on the status says witnessed."""
    code, text, _ = place.run("log", "checkpoint")
    sent = place.data("log", "checkpoint")
    assert code == 0 and sent["text"] == text and text.startswith(f"{place.origin}\n3\n")
    head = Checkpoint(place.origin, sent["size"], base64.b64decode(sent["root"]))
    place.enter("d")
    assert "not witnessed: 0/2 (quorum 2)" in place.run("log", "status")[1]
    line, whole = tmp_path / "line", tmp_path / "whole"
    line.write_bytes(place.first.cosign(head, LATER).line())
    whole.write_bytes(text.encode() + place.second.cosign(head, LATER + 60).line())
    code, out, _ = place.run("log", "cosign", str(line))
    assert code == 0 and f"{place.origin} at 3: w1\nwitnessed 1/2 (quorum 2: NOT met)\n" == out
    taken = place.data("log", "cosign", str(whole))
    assert (taken["size"], taken["added"], taken["cosigned"], taken["met"]) == (3, ["w2"], ["w1", "w2"], True)
    (one,) = place.data("log", "status")["logs"]
    assert (one["size"], one["witnessed_size"], one["quorum_at"]) == (4, 3, "2026-09-23T21:47:40Z")
    assert "3 entries at 2026-09-23T21:47:40Z" in place.run("log", "status")[1]
    place.run("log", "publish", str(tmp_path / "www"))
    assert (tmp_path / "www" / place.origin / "checkpoint.witnessed").is_file()


def test_a_request_for_a_witness(place: Lab) -> None:
    """C2SP tlog-witness: old size, proof, empty line, checkpoint; 0 for a witness that saw nothing."""
    plain = place.run("log", "checkpoint")[1]
    assert place.run("log", "checkpoint", "--since", "0")[1] == f"old 0\n\n{plain}"
    assert place.run("log", "checkpoint", "--since", "3")[1] == f"old 3\n\n{plain}"
    old, *hashes, empty, origin = place.run("log", "checkpoint", "--since", "2")[1].split("\n")[:4]
    assert (old, len(hashes), empty, origin) == ("old 2", 1, "", place.origin)
    code, _, told = place.run("log", "checkpoint", "--since", "9")
    assert code == exits.WRONG_INPUT and "3 entries, not 9" in told


def test_answers_that_are_refused(place: Lab, tmp_path: Path, witnesses: Any) -> None:
    """One sentence, no traceback, and nothing is kept."""
    size, root = 3, place.data("log", "checkpoint")["root"]
    head = Checkpoint(place.origin, size, base64.b64decode(root))
    answer = tmp_path / "answer"
    for data, told in (
        (witnesses.Witness("w9.example/x").cosign(head, LATER).line(), "no witness of the trust root"),
        (b"nothing of a witness", "signature line"),
    ):
        answer.write_bytes(data)
        code, out, err = place.run("log", "cosign", str(answer))
        assert code != exits.DONE and out == "" and told in err and "Traceback" not in err
    assert place.data("log", "status")["logs"][0]["cosigners"] == []


def test_publish_twice_and_audit(place: Lab, tmp_path: Path) -> None:
    """The copy grows, is left alone when nothing is new, and a stranger audits it."""
    target = tmp_path / "www"
    assert place.data("log", "publish", str(target))["logs"][0]["size"] == 3
    assert place.data("log", "publish", str(target))["logs"][0]["files"] == 0
    place.enter("d")
    code, out, _ = place.run("log", "publish", str(target))
    assert code == 0 and out.startswith(f"{place.origin}: 4 entries, ")
    code, out, _ = place.run(
        "verify", "--audit", str(target / place.origin), "--trust-root", str(place.home.trust_root)
    )
    assert code == exits.CANNOT and "quorum" in out and "4 published and checked, 0 withheld" in out


def test_damage_and_absence_are_said(place: Lab, tmp_path: Path) -> None:
    """A log that does not hold is exit 1 of `status`; a home without one says what makes one."""
    (place.home.log / place.origin / "tile/0/000.p/3").write_bytes(b"x" * 96)
    code, out, err = place.run("log", "status")
    assert code == exits.REFUSED and "DAMAGED" in out and "do not give the signed root" in err
    shutil.rmtree(place.home.log)
    for arguments in (("checkpoint",), ("publish", str(tmp_path / "x"))):
        code, _, err = place.run("log", *arguments)
        assert code == exits.WRONG_INPUT and "no log here yet" in err
    assert "not begun" in place.run("log", "status")[1]
    place.home.trust_root.unlink()
    code, _, err = place.run("log", "status")
    assert code == exits.WRONG_INPUT and "no trust root" in err
