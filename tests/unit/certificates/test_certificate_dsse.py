"""Our envelopes are plain DSSE, and our profile is narrower than DSSE."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError as ForeignError
from securesystemslib.signer._crypto_signer import CryptoSigner
from securesystemslib.signer._key import SSlibKey

from orchestrator.certificates import dsse
from orchestrator.verification.errors import VerificationError


def foreign_key(key: Any) -> SSlibKey:
    return SSlibKey(key.keyid, "ed25519", "ed25519", {"public": key.public.hex()})


def test_securesystemslib_verifies_our_envelopes(world: Any, lab: Any) -> None:
    """An independent DSSE library verifies every kind of statement we sign."""
    shot = world.screening().usual()
    key = lab.key("cert")
    for raw in (shot.opening.envelope, shot.certificates[0][0].envelope, shot.summary().envelope):
        envelope = Envelope.from_dict(json.loads(raw))
        assert set(envelope.verify([foreign_key(key)], 1)) == {key.keyid}
        with pytest.raises(ForeignError):
            envelope.verify([foreign_key(lab.key("attacker"))], 1)


def test_pae_equals_securesystemslib() -> None:
    """The same bytes are signed."""
    for payload in (b"", b"hello world", "\u00e9\n".encode()):
        theirs = Envelope(payload, "application/x", {}).pae()
        assert dsse.pae("application/x", payload) == theirs


def test_we_read_what_securesystemslib_signs(lab: Any) -> None:
    """A foreign signer's envelope, spelled canonically, is accepted by our reader."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    signer = CryptoSigner(Ed25519PrivateKey.generate())
    envelope = Envelope(b"{}", dsse.STATEMENT_TYPE, {})
    signature = bytes.fromhex(envelope.sign(signer).signature)
    raw = dsse.encode(b"{}", dsse.STATEMENT_TYPE, [("0" * 32, signature)])
    read = dsse.decode(raw, dsse.STATEMENT_TYPE, 100)
    assert read.signatures == (("0" * 32, signature),)
    assert read.signed_bytes() == envelope.pae()


def test_protocol_example(vectors: Callable[[str], Path]) -> None:
    """The example of the DSSE protocol document: same PAE bytes."""
    example = json.loads(vectors("c2sp-dsse-examples/dsse_v1.json").read_text())
    assert dsse.pae(example["payloadType"], example["body_utf8"].encode()).decode() == example["pae_utf8"]


def test_encode_sorts_key_ids() -> None:
    """One spelling, whatever the order of signing; a repeated key id is refused when read."""
    pair = [("b" * 32, bytes(64)), ("a" * 32, bytes(64))]
    assert dsse.encode(b"x", "t", pair) == dsse.encode(b"x", "t", pair[::-1])
    assert json.loads(dsse.encode(b"x", "t", pair))["payload"] == base64.b64encode(b"x").decode()
    with pytest.raises(VerificationError, match="unique"):
        dsse.decode(dsse.encode(b"x", "t", [pair[0], pair[0]]), "t", 10)


def test_size_is_checked_before_anything_else() -> None:
    """Row 47: the cap comes before the expression and the base64."""
    with pytest.raises(VerificationError) as caught:
        dsse.decode(b"x" * 3000, dsse.STATEMENT_TYPE, 100)
    assert caught.value.reasons == ("too-large",)
