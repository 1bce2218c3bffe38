"""A defect anywhere in `assize verify` is exit 1, never an answer (certificates.md 3.6, issue 5).

Which functions run is found by instrumenting a genuine verification, not by hand; then each of them fails
once, at its first call.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest

from orchestrator.certificates import bundle, trust
from orchestrator.certificates.logbook import Logbook
from orchestrator.cli.main import main
from orchestrator.log.files import Disk

LAB = Path(__file__).resolve().parents[2] / "assets" / "certificates" / "certificate_world.py"
PARTS = ("canonical", "certificates", "cli/verify", "evidence", "log", "verification", "wire")


class Defect(Exception):
    """Something that nobody expected."""


class FastDisk(Disk):
    """Does not wait for the disk."""

    def _each(self, descriptors: list[int]) -> None:
        return


@pytest.fixture(scope="module")
def lab() -> ModuleType:
    """The lab with seeded keys that the certificate tests use."""
    if "certificate_world" not in sys.modules:
        spec = importlib.util.spec_from_file_location("certificate_world", LAB)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["certificate_world"] = module
        spec.loader.exec_module(module)
    return sys.modules["certificate_world"]


def is_ours(code: CodeType) -> bool:
    """Whether a function is on the way of verification."""
    _, found, place = code.co_filename.rpartition("/orchestrator/")
    # `command` is called by click, outside of what it guards itself: all that it does is in there.
    return bool(found) and place.startswith(PARTS) and code.co_name not in ("<module>", "command")


@contextmanager
def calls(on_call: Callable[[CodeType], None]) -> Iterator[None]:
    """`on_call` is told of every function of ours that is entered, and may raise from in there."""

    def trace(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and is_ours(frame.f_code):
            on_call(frame.f_code)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


class Published:
    """A genuine logged screening of three tries with its evidence, log and trust root."""

    def __init__(self, lab: Any, folder: Path) -> None:
        self.folder, world = folder, lab.World(folder / "store")
        self.root = folder / "trust-root.json"
        self.root.write_bytes(lab.trust_root(logged=True))
        self.log = folder / "log" / lab.ORIGIN
        shot = world.screening(tasks=("alpha",))
        for index in (1, 2, 3):
            shot.run("alpha", index, lab.PASS)
        checked = trust.load(self.root)
        book = Logbook(folder / "log", folder / "state", checked, lambda: lab.key("log"), disk=FastDisk)
        envelopes = [shot.opening.envelope, *(s.envelope for s, _ in shot.certificates)]
        envelopes.append(shot.summary().envelope)
        for envelope in envelopes:
            book.enter(envelope)
        proofs = book.prove(envelopes)
        shared = bundle.ScreeningProofs.joined(["opening", "000001", "000002", "000003", "summary"], proofs)
        self.screening, self.one = folder / "screening.zip", folder / "one.trybundle.json"
        self.screening.write_bytes(bundle.encode_screening(envelopes[0], shot.tries(), envelopes[-1], shared))
        signed = shot.certificates[0][0]
        self.one.write_bytes(bundle.encode_try(signed.envelope, signed.manifest, proofs[1].encode()))

    def arguments(self, what: str, memory: Path) -> list[str]:
        asked = {
            "screening": [str(self.screening)],
            "one": [str(self.one)],
            "audit": ["--audit", str(self.log)],
        }
        more = [] if what == "audit" else ["--evidence", str(self.folder / "store")]
        kept = ["--trust-root", str(self.root), "--remember", str(memory), "--log", str(self.folder / "log")]
        return ["--home", str(self.folder / "home"), "verify", *asked[what], *more, *kept]


@pytest.fixture(scope="module")
def published(lab: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Published:
    return Published(lab, tmp_path_factory.mktemp("defects"))


def run(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(("what", "at_least"), [("screening", 90), ("one", 80), ("audit", 60)])
def test_a_defect_in_any_stage_is_exit_1(
    what: str, at_least: int, published: Published, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every function that a successful verification enters is made to fail, one after the other."""
    run(published.arguments(what, tmp_path / "warm"))
    entered: dict[CodeType, None] = {}
    with calls(lambda code: entered.setdefault(code)):
        assert run(published.arguments(what, tmp_path / "memory")) == 0
    assert len(entered) >= at_least
    wrong: list[str] = []
    for number, wanted in enumerate(entered):

        def fail(code: CodeType, wanted: CodeType = wanted) -> None:
            if code is wanted:
                raise Defect(code.co_name)

        memory = tmp_path / str(number)
        with calls(fail):
            code = run(published.arguments(what, memory))
        if code != 1:
            wrong.append(f"{wanted.co_filename.rpartition('/')[2]} {wanted.co_name}: exit {code}")
    assert wrong == []
    assert "Traceback" not in capfd.readouterr().err
