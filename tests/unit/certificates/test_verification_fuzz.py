"""Hostile bytes for every parser of the verification path, and records taken away from a logged screening.

Rules: issue 5, "How it is judged": no exception but the one verification error type; removing or
corrupting any set of pass certificates never raises a Pack Score; removing any record of any kind always
raises a visible counter. Documents are changed by their structure (a genuine one with values replaced,
moved, dropped and repeated) and by their bytes.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator import canonical, handover
from orchestrator.certificates import archive, bundle, dsse, schema, trust
from orchestrator.certificates.opened import read_signed
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.certificates.verify import check_manifest, verify_try_bundle
from orchestrator.log import checkpoint, note, proof, tiles, witness
from orchestrator.log.memory import CheckpointMemory
from orchestrator.log.proof import LogVerifier
from orchestrator.verification import wire
from orchestrator.verification.errors import VerificationError
from scoring.classify import View
from scoring.pack_score import score_pack

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "certificates"
FUZZ = settings(
    max_examples=400,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=True)
    | st.text(max_size=12)
    | st.sampled_from(["0" * 64, "2026-10-03T10:00:00Z", "9" * 400, "\ud800", "a/../b", "passed", "", "٣"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@pytest.fixture(scope="module")
def log_lab(lab: ModuleType) -> ModuleType:
    """The module with a log in memory."""
    if "certificate_log" not in sys.modules:
        spec = importlib.util.spec_from_file_location("certificate_log", ASSETS / "certificate_log.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["certificate_log"] = module
        spec.loader.exec_module(module)
    return sys.modules["certificate_log"]


class Genuine:
    """A logged screening with all its parts, and the root and verifier for it."""

    def __init__(self, lab: Any, log_lab: Any, folder: Path) -> None:
        self.lab, self.world = lab, lab.World(folder / "store")
        self.trust_bytes = lab.trust_root(logged=True)
        self.trust = trust.parse(self.trust_bytes)
        self.shot = self.world.screening().usual()
        self.opening, self.summary = self.shot.opening.envelope, self.shot.summary().envelope
        self.tries = [one.envelope for one, _ in self.shot.certificates]
        self.log = log_lab.Log(self.trust).enter(self.opening, *self.tries, self.summary)
        self.one_witness = log_lab.Witness("w.example/a")
        line = self.one_witness.cosign(self.log.head(), 1_790_300_000)
        self.proof = self.log.prove(self.tries[0], more=[line])
        self.manifest = self.shot.certificates[0][0].manifest
        self.shared = self.log.shared(self.opening, self.tries, self.summary)
        self.screening = bundle.encode_screening(self.opening, self.shot.tries(), self.summary, self.shared)
        self.one = bundle.encode_try(self.tries[0], self.manifest, self.proof)
        key = self.one_witness.key
        self.policy = f"witness w {key.vkey}\ngroup g any w\nquorum g\n".encode()
        self.verifier = LogVerifier(self.trust.logs[lab.ORIGIN].key, witness.parse_policy(self.policy))

    def statements(self) -> dict[str, bytes]:
        """One envelope of every kind."""
        return {schema.OPENING: self.opening, schema.TRY: self.tries[0], schema.SUMMARY: self.summary}


@pytest.fixture(scope="module")
def good(lab: ModuleType, log_lab: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Genuine:
    return Genuine(lab, log_lab, tmp_path_factory.mktemp("fuzz"))


def edit_bytes(data: st.DataObject, raw: bytes) -> bytes:
    """A few pieces of a genuine file replaced, repeated, cut or put in."""
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        to = at + data.draw(st.integers(0, 40))
        piece = data.draw(
            st.binary(max_size=6)
            | st.sampled_from([raw[at:to] * 2, b"\n\n", b'"', b"PK\x03\x04", b"\xff", b"="])
        )
        raw = raw[:at] + piece + raw[to:]
    return raw


def edit_json(data: st.DataObject, document: Any) -> Any:
    """One place of a document replaced, dropped or doubled; the walk there is drawn."""
    if isinstance(document, dict) and document and data.draw(st.integers(0, 5)):
        name = data.draw(st.sampled_from(sorted(document)))
        match data.draw(st.sampled_from(["in", "in", "in", "drop", "extra"])):
            case "drop":
                return {key: value for key, value in document.items() if key != name}
            case "extra":
                return {**document, data.draw(st.text(max_size=6)): data.draw(VALUES)}
        return {**document, name: edit_json(data, document[name])}
    if isinstance(document, list) and document and data.draw(st.integers(0, 4)):
        at = data.draw(st.integers(0, len(document) - 1))
        if data.draw(st.booleans()):
            return [*document, document[at]]
        return [*document[:at], edit_json(data, document[at]), *document[at + 1 :]]
    return data.draw(VALUES)


def spelled(document: Any) -> bytes:
    """JSON of anything, as strictly as Python can: surrogates and NaN included."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def only_verification_errors(*checks: Callable[[], object]) -> list[object]:
    """What the checks returned; any other exception ends the test."""
    found = []
    for check in checks:
        try:
            found.append(check())
        except VerificationError as error:
            assert error.findings and all(one.rule for one in error.findings)
    return found


@FUZZ
@given(data=st.data())
def test_bytes_of_every_file(data: st.DataObject, good: Genuine, tmp_path: Path) -> None:
    """Envelope, bundle, zip, proof, note, checkpoint, policy, trust root, manifest, tile: edited anywhere."""
    checkpoint_note = proof.parse_proof(good.proof).checkpoint
    raw = edit_bytes(
        data,
        data.draw(
            st.sampled_from(
                [
                    good.opening,
                    good.tries[0],
                    good.summary,
                    good.one,
                    good.screening,
                    good.proof,
                    checkpoint_note,
                    good.policy,
                    good.trust_bytes,
                    good.manifest,
                    good.log.items[0],
                    good.log.consistency(3),
                    good.log.head().body(),
                ]
            )
        ),
    )
    memory = CheckpointMemory(tmp_path)
    head = good.log.head()
    place = memory._path(head.origin)
    place.write_bytes(raw)
    only_verification_errors(
        *(lambda kind=kind: read_signed(raw, kind, good.trust) for kind in good.statements()),
        lambda: dsse.decode(raw, dsse.TRUST_ROOT_TYPE, 1 << 20),
        lambda: bundle.decode_try(raw),
        lambda: bundle.decode_screening(raw),
        lambda: archive.read(raw, entry_limit_bytes=1 << 20),
        lambda: trust.parse(raw),
        lambda: trust.follow(good.trust, raw),
        lambda: schema.read_manifest(raw),
        lambda: proof.parse_consistency(raw),
        lambda: good.verifier.check(raw, good.log.items[0]),
        lambda: good.verifier.open(raw),
        lambda: note.parse(raw),
        lambda: checkpoint.parse_body(raw),
        lambda: witness.parse_policy(raw),
        lambda: tiles.split_bundle(raw, 3),
        lambda: memory.recall(head.origin),
    )
    place.unlink()
    for result in (verify_try_bundle(raw, good.trust), verify_screening_bundle(raw, good.trust)):
        assert "internal" not in result.reasons
        assert result.exit_code != 0 or raw in (good.one, good.screening)


@FUZZ
@given(data=st.data())
def test_signed_documents_of_a_bad_lab(data: st.DataObject, good: Genuine) -> None:
    """Statements with any value anywhere, signed by the trusted key: a finding or the one error."""
    kind = data.draw(st.sampled_from(sorted(good.statements())))
    payload = edit_json(data, good.lab.payload_of(good.statements()[kind]))
    raw = good.lab.resign(spelled(payload))
    for opened in only_verification_errors(lambda: read_signed(raw, kind, good.trust)):
        assert opened is not None
    whole = bundle.encode_screening(raw, good.shot.tries(), good.summary, good.shared)
    assert "internal" not in verify_screening_bundle(whole, good.trust).reasons
    result = verify_try_bundle(bundle.encode_try(raw, good.manifest, good.proof), good.trust)
    assert "internal" not in result.reasons
    assert result.exit_code != 0 or spelled(payload) == spelled(good.lab.payload_of(good.tries[0]))


@FUZZ
@given(data=st.data())
def test_manifests_and_trust_roots_of_a_bad_lab(data: st.DataObject, good: Genuine) -> None:
    """The two other documents that are read as JSON, with any value anywhere."""
    manifest = spelled(edit_json(data, json.loads(good.manifest)))
    opened = read_signed(good.tries[0], schema.TRY, good.trust)
    only_verification_errors(lambda: schema.read_manifest(manifest), lambda: check_manifest(manifest, opened))
    document = json.loads(dsse.decode(good.trust_bytes, dsse.TRUST_ROOT_TYPE, 1 << 20).payload)
    root = good.lab.resign(
        spelled(edit_json(data, document)), good.lab.key("root"), payload_type=dsse.TRUST_ROOT_TYPE
    )
    only_verification_errors(lambda: trust.parse(root), lambda: trust.follow(good.trust, root))


@FUZZ
@given(value=VALUES)
def test_any_json_is_canonical_or_refused(value: Any) -> None:
    """Whatever `wire.parse` lets through, RFC 8785 spells in the same bytes."""
    import rfc8785

    raw = spelled(value)
    for found in only_verification_errors(lambda: wire.parse(raw)):
        assert rfc8785.dumps(found) == raw == canonical.encode(found)  # type: ignore[arg-type]


def score(files: bundle.ScreeningFiles, root: trust.TrustRoot) -> tuple[Any, handover.Handover]:
    given_over = handover.from_files(files, root, pack_is_current=True)
    card = score_pack(given_over.plan, given_over.tries, view=View.PUBLIC, do_nothing_floor=None)
    return card, given_over


def test_every_set_of_pass_certificates(good: Genuine) -> None:
    """All 63 sets of the six passes, each removed and each corrupted: the Pack Score is never higher, and a
    counter shows every lost slot. The screening is logged."""
    files = bundle.decode_screening(good.screening)
    best, whole = score(files, good.trust)
    passes = [
        one.number
        for one in whole.result.tries
        if one.predicate is not None and one.predicate["result"]["outcome"] == "passed"
    ]
    assert len(passes) == 6 and best.pack_score is not None
    tried = 0
    for size in range(1, len(passes) + 1):
        for chosen in itertools.combinations(passes, size):
            removed = tuple(pair for pair in files.tries if pair[0] not in chosen)
            broken = tuple(
                (n, raw[:-400] + b"!" + raw[-399:]) if n in chosen else (n, raw) for n, raw in files.tries
            )
            for tries in (removed, broken):
                card, given_over = score(
                    bundle.ScreeningFiles(files.opening, tries, files.summary, files.proofs), good.trust
                )
                assert card.pack_score is None or card.pack_score <= best.pack_score, chosen
                sums = given_over.result.accounting
                assert sums.unaccounted + sums.uncountable + sums.invalid == len(chosen)
                assert given_over.result.exit_code == 1
            tried += 1
    assert tried == 63


def test_every_kind_of_record(good: Genuine) -> None:
    """Opening, each try, summary, each proof, the checkpoint, each manifest, each evidence file: taking any
    of them away is never silent. What is counted says what is missing."""
    entries = archive.read(good.screening, entry_limit_bytes=1 << 20)
    store, seen = good.world.store, 0
    whole = verify_screening_bundle(good.screening, good.trust, store=store)
    assert (whole.exit_code, whole.evidence.missing, whole.accounting.unaccounted) == (0, 0, 0)
    for name, _ in entries:
        # A try goes with its proof: the zip itself would be refused else.
        lost = {name, name.replace("tries/", "log/").replace(bundle.TRY_SUFFIX, ".proof")}
        kept = [pair for pair in entries if pair[0] not in lost]
        fewer = verify_screening_bundle(archive.write(kept), good.trust, store=store)
        assert fewer.exit_code in (1, 2, 4) and fewer.reasons, name
        if name.startswith("tries/"):
            sums = fewer.accounting
            assert {"summary-adds", "summary-omits"} & set(fewer.reasons), name
            assert sums.unaccounted + sums.invalid + sums.uncountable == 1 or "replaces" in fewer.reasons
        seen += 1
    assert seen == len(entries) == 1 + 10 + 1 + 1 + 12
    for number, raw in enumerate(good.shot.tries()):
        bare = bundle.encode_try(bundle.decode_try(raw).envelope, b"")
        tries = [*good.shot.tries()[:number], bare, *good.shot.tries()[number + 1 :]]
        packed = bundle.encode_screening(good.opening, tries, good.summary, good.shared)
        assert "manifest" in verify_screening_bundle(packed, good.trust, store=store).reasons
    manifest = json.loads(good.manifest)
    for listed in manifest["files"]:
        if "sha256" in listed:
            place = store.root / "sha256" / listed["sha256"][:2] / listed["sha256"][2:]
            held = place.read_bytes()
            place.unlink()
            fewer = verify_screening_bundle(good.screening, good.trust, store=store)
            place.write_bytes(held)
            assert fewer.exit_code == 4 and (fewer.evidence.missing or 0) >= 1
