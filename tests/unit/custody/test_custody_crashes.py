"""The steps of a trust root's life are stopped at every file operation: the home stays usable, and the same
step again ends as if it had never been stopped.

Rule: issue 5, deliverable 4 ("reversible until the last"), and the crash rules of the log.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.certificates.errors import KeyFileError
from orchestrator.certificates.keys import SigningKey
from orchestrator.custody import publishing, steps
from orchestrator.custody.custodian import Custodian
from orchestrator.custody.errors import CustodyError
from orchestrator.log.audit import CHECKPOINT_FILE
from orchestrator.screenings.installation import Installation

KILL = Path(__file__).resolve().parents[2] / "assets" / "custody" / "kill_publish.py"


def rotate(custodian: Any) -> None:
    steps.rotate(custodian, at=2)


def revoke(custodian: Any) -> None:
    steps.revoke(custodian, next(iter(custodian.roots.current().keys)), 0, "compromise")


def new_log(custodian: Any) -> None:
    steps.new_log(custodian)


def renew(custodian: Any) -> None:
    steps.ceremony(custodian, [], None, issuer="unused")


def sign(custodian: Any) -> None:
    publishing.sign_here(custodian)


def publish(custodian: Any) -> None:
    publishing.publish(custodian)


def discard(custodian: Any) -> None:
    publishing.discard(custodian)


def usable(lab: Any) -> int:
    """The version of a home that can say what it is and, unless frozen on purpose, who signs."""
    installation = Installation.open(lab.home)
    try:
        root = installation.trust_root()
        if not installation.keyring.all_frozen():
            assert installation.signer().keyid in root.keys
        return root.version
    finally:
        installation.close()


def run(lab: Any, disk: Any, step: Callable[[Any], None]) -> None:
    step(lab.custodian(disk))


pytestmark = pytest.mark.only_on("sqlite", "what stops here are operations on files, none of the ledger")

FLOWS = {
    "rotate": (rotate, ()),
    "revoke": (revoke, ()),
    "new-log": (new_log, ()),
    "sign": (sign, (rotate,)),
    "publish-rotation": (publish, (rotate, sign)),
    "publish-revocation": (publish, (revoke, sign)),
    "publish-new-log": (publish, (new_log, sign)),
}


@pytest.mark.parametrize("kind", ["CountingDisk", "LossyDisk"], ids=["killed", "power-loss"])
@pytest.mark.parametrize("flow", FLOWS)
def test_stop_at_every_operation(
    flow: str, kind: str, make_lab: Callable[[str], Any], crash: ModuleType
) -> None:
    """Killed, or killed with all that was not synced lost: again, and the home is where it should be."""
    step, before = FLOWS[flow]
    whole = make_lab("whole")
    for one in before:
        run(whole, None, one)
    counting = crash.CountingDisk()
    copy = shutil.copytree(whole.home.root, whole.home.root.with_name("start"))
    run(whole, counting, step)
    wanted = usable(whole)
    assert counting.count >= 3
    for last in range(1, counting.count + 1):
        lab = type(whole)(whole.home.root.with_name(str(last)), whole.pack)
        shutil.copytree(copy, lab.home.root)
        disk = getattr(crash, kind)(last)
        with pytest.raises(crash.Killed):
            run(lab, disk, step)
        if kind == "LossyDisk":
            disk.lose_power()
        assert usable(lab) in (1, wanted)
        if step is not publish or lab.custodian().draft_path.exists():  # else nothing is left to finish
            run(lab, None, step)
        assert usable(lab) == wanted
        draft = lab.custodian().draft()
        assert (draft is None) == (step is publish)
        shutil.rmtree(lab.home.root)


def test_discard_is_stopped_at_every_operation(make_lab: Callable[[str], Any], crash: ModuleType) -> None:
    """After it the old key signs again; a second discard finishes what the first began."""
    whole = make_lab("whole")
    run(whole, None, revoke)
    copy = shutil.copytree(whole.home.root, whole.home.root.with_name("start"))
    counting = crash.CountingDisk()
    run(whole, counting, discard)
    for last in range(1, counting.count + 1):
        lab = type(whole)(whole.home.root.with_name(str(last)), whole.pack)
        shutil.copytree(copy, lab.home.root)
        with pytest.raises(crash.Killed):
            run(lab, crash.CountingDisk(last), discard)
        if lab.custodian().draft() is not None:
            run(lab, None, discard)
        assert not lab.custodian().keyring.all_frozen()
        assert usable(lab) == 1
        shutil.rmtree(lab.home.root)


def test_real_kills(make_lab: Callable[[str], Any], tmp_path: Path) -> None:
    """SIGKILL to a real process at every file operation of `publish`; the child counts what it did."""
    lab = make_lab("start")
    run(lab, None, rotate)
    run(lab, None, sign)
    done = subprocess.run(
        [sys.executable, str(KILL), str(lab.home.root), str(tmp_path / "lives")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= 5


def test_a_key_file_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped while a key is written: no half file stands in the way of the next attempt."""

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    path = tmp_path / "key.pem"
    for name in ("fsync", "link"):
        with monkeypatch.context() as patch:
            patch.setattr(f"os.{name}", die)
            with pytest.raises(Killed):
                SigningKey.generate().save(path)
        assert not path.exists()
    key = SigningKey.generate()
    key.save(path)
    assert SigningKey.load(path).keyid == key.keyid
    with pytest.raises(KeyFileError, match="never overwritten"):
        SigningKey.generate().save(path)


def test_a_log_that_is_begun_between_two_looks_is_not_missed(
    make_lab: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another signer's first entry comes after we saw no log: that is no log that was lost."""
    lab = make_lab("begun")
    custodian = lab.custodian()
    (log,) = custodian.roots.current().logs.values()
    assert custodian.log_size(log) == 0
    look, begun = Custodian.signed_size, list[str]()

    def late(self: Custodian, origin: str) -> int:
        if not begun:
            begun.append(origin)
            lab.certify(lab.screenings[0])
        return look(self, origin)

    monkeypatch.setattr(Custodian, "signed_size", late)
    assert custodian.log_size(log) == lab.size() > 0 and begun
    (lab.home.log / log.key.origin / CHECKPOINT_FILE).unlink()
    with pytest.raises(CustodyError, match="was written to, but is not in"):
        custodian.log_size(log)
