"""What readers meet, from the command line: the pinned version 1 and the chain that a bundle carries.

One home from its first try on: certify, rotate, certify, close, revoke, new log, certify again. Every exit
code is that of the table in certificates.md 3.6.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.certificates import archive, bundle
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.cli.main import main
from orchestrator.custody import steps
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.recertify import recertify

LIMIT = 8 << 20


@pytest.fixture
def verify(lab: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Any]:
    """(exit code, what `--json` says) of `assize verify` for a reader who has versions 1 to `versions`."""
    public = tmp_path / "public"

    def run(what: list[str], versions: int = 1) -> tuple[int, Any]:
        with pytest.raises(SystemExit) as ended:
            main(["--home", str(lab.home.root), "keys", "export", str(public), "--json"])
        exported = json.loads(capsys.readouterr().out)
        assert ended.value.code == 0
        roots = [word for path in exported["files"][:versions] for word in ("--trust-root", path)]
        arguments = ["--home", str(tmp_path / "reader"), "verify", *what, *roots, "--pin", exported["pin"]]
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--json"])
        return int(str(ended.value.code)), json.loads(capsys.readouterr().out)

    return run


def test_a_whole_life(lab: Any, verify: Callable[..., Any]) -> None:
    """Old and new certificates with nothing but the pin, and with every version."""
    one, two = lab.screenings
    first = str(lab.certify(one))
    assert verify([first])[0] == 0
    (old,) = lab.newest.keys
    steps.rotate(lab.custodian(), at=6)
    lab.publish()
    second = str(lab.certify(two))
    code, told = verify([second])
    assert (code, told["trustRoot"]["version"]) == (0, 2)
    assert verify([first])[1]["trustRoot"]["version"] == 1
    steps.close(lab.custodian(), old)
    lab.publish()
    for path in (first, second):
        assert verify([path], 3)[0] == 0
    new = list(lab.newest.keys)[-1]
    steps.revoke(lab.custodian(), new, 8, "compromise")
    steps.new_log(lab.custodian())
    assert lab.publish().version == 4
    (ended, begun) = lab.newest.logs
    code, told = verify([second], 4)
    assert code == 1 and "key-revoked" in json.dumps(told)
    assert verify([first], 4)[0] == 0
    # An old bundle leads only to the versions it was made under: later news is for the reader to fetch.
    assert verify([second], 1)[0] == 0
    installation = Installation.open(lab.home)
    again = str(recertify(installation, two).bundle)
    installation.close()
    for versions in (1, 2, 3, 4):
        code, told = verify([again], versions)
        assert (code, told["trustRoot"]["version"]) == (0, 4)
    assert verify(["--audit", str(lab.home.log / begun)], 4)[0] == 0
    code, told = verify(["--audit", str(lab.home.log / ended)], 4)
    assert code == 1 and "key-revoked" in json.dumps(told)


def _with_chain(path: Path, *chain: bytes) -> bytes:
    """The same screening bundle with another chain."""
    entries = archive.read(path.read_bytes(), entry_limit_bytes=LIMIT)
    kept = [(name, raw) for name, raw in entries if not name.startswith("trust-root/")]
    return archive.write(
        [*kept, *((f"trust-root/{number:06d}.json", raw) for number, raw in enumerate(chain, 2))]
    )


def test_a_chain_in_a_bundle_gives_nobody_trust(lab: Any, make_lab: Callable[[str], Any]) -> None:
    """Row 46 for chains: the trust root of another lab, a damaged file or none at all: the key is unknown;
    beside the real one they change nothing."""
    one = lab.screenings[0]
    steps.rotate(lab.custodian(), at=0)
    lab.publish()
    path = lab.certify(one)
    real = lab.custodian().roots.raw(2)
    stranger = make_lab("stranger")
    steps.rotate(stranger.custodian(), at=0)
    steps.ceremony(stranger.custodian(), [], None, issuer="unused")
    stranger.publish()
    foreign = stranger.custodian().roots.raw(2)
    cut = real[:-40] + b"A" * 38 + b"]}"
    useless: list[tuple[bytes, ...]] = [(), (cut,), (b"{}",)]
    useful: list[tuple[bytes, ...]] = [(real,), (cut, real), (b"", real, cut, b"{}")]
    for chain in useless:
        result = verify_screening_bundle(_with_chain(path, *chain), lab.pinned)
        assert result.exit_code == 1 and "no-trusted-key" in result.reasons
    for chain in useful:
        assert verify_screening_bundle(_with_chain(path, *chain), lab.pinned).exit_code == 0
    # A lab that shares version 1 has the same root key here, so its version 2 is a real successor; it lists
    # another certificate key, so what this lab signed is not trusted through it.
    result = verify_screening_bundle(_with_chain(path, foreign), lab.pinned)
    assert (result.exit_code, "no-trusted-key" in result.reasons) == (1, True)


@pytest.mark.parametrize("numbers", [(3,), (2, 2), (3, 2), (2, 4), (1,)])
def test_trust_roots_in_a_bundle_are_numbered_from_two(lab: Any, numbers: tuple[int, ...]) -> None:
    """One spelling only."""
    path = lab.certify(lab.screenings[0])
    entries = archive.read(path.read_bytes(), entry_limit_bytes=LIMIT)
    raw = archive.write([*entries, *((f"trust-root/{number:06d}.json", b"{}") for number in numbers)])
    result = verify_screening_bundle(raw, lab.pinned)
    assert (result.exit_code, result.reasons) == (2, ("bundle-form",))


def test_chains_of_bundles_round_trip() -> None:
    """What is written is read; a very long chain is cut, so that a bundle cannot keep a verifier busy."""
    chain = tuple(b"%d" % number for number in range(100))
    raw = bundle.encode_try(b"envelope", b"manifest", chain=chain)
    assert bundle.decode_try(raw).chain == bundle.chain_of_try(raw) == chain[: bundle.CHAIN_LIMIT]
    assert bundle.chain_of_try(bundle.encode_try(b"envelope", b"manifest")) == ()
    assert bundle.chain_of_try(b"no bundle") == ()
    files = bundle.decode_screening(bundle.encode_screening(b"{}", [], None, chain=chain))
    assert files.chain == chain[: bundle.CHAIN_LIMIT]
