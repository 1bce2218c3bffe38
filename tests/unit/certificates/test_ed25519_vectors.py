"""Public Ed25519 vectors, and the filter that OpenSSL lacks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from orchestrator.verification import ed25519
from orchestrator.verification.errors import VerificationError

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def judge(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        key = ed25519.public_key(public)
    except VerificationError:
        return False
    return ed25519.verifies(key, signature, message)


def test_wycheproof(vectors: Callable[[str], Path]) -> None:
    """151 of 151, valid and invalid."""
    data = json.loads(vectors("wycheproof/ed25519_test.json").read_text())
    ran = 0
    for group in data["testGroups"]:
        public = bytes.fromhex(group["publicKey"]["pk"])
        for test in group["tests"]:
            found = judge(public, bytes.fromhex(test["sig"]), bytes.fromhex(test["msg"]))
            assert found == (test["result"] == "valid"), test["tcId"]
            ran += 1
    assert ran == data["numberOfTests"] == 151


def test_speccheck_row_equals_libsodium(vectors: Callable[[str], Path]) -> None:
    """The twelve disputed signatures: the same row as libsodium's."""
    cases = json.loads(vectors("ed25519-speccheck/cases.json").read_text())
    row = "".join(
        "V" if judge(*(bytes.fromhex(case[name]) for name in ("pub_key", "signature", "message"))) else "X"
        for case in cases
    )
    assert row == "XXXVXXXXXXXX"


def small_order_points() -> set[int]:
    """y of every point whose eightfold is the identity, by walking the torsion subgroup."""

    def add(p: tuple[int, int], q: tuple[int, int]) -> tuple[int, int]:
        product = D * p[0] * q[0] * p[1] * q[1] % P
        x = (p[0] * q[1] + q[0] * p[1]) * pow(1 + product, -1, P) % P
        return x, (p[1] * q[1] + p[0] * q[0]) * pow(1 - product, -1, P) % P

    root = pow(1 + D, (P + 3) // 8, P)
    if root * root % P != (1 + D) % P:
        root = root * pow(2, (P - 1) // 4, P) % P
    for sign in (root, -root):
        square = (sign - 1) * pow(D, -1, P) % P  # y^2 of a point of order 8
        y = pow(square, (P + 3) // 8, P)
        if y * y % P != square:
            y = y * pow(2, (P - 1) // 4, P) % P
        if y * y % P == square:
            x = pow(2, (P - 1) // 4, P) * y % P  # x^2 = -y^2
            points, point = set(), (0, 1)
            for _ in range(8):
                points.add(point)
                point = add(point, (x, y))
            assert point == (0, 1) and len(points) == 8
            return {y for _, y in points}
    raise AssertionError("no point of order 8")


def test_every_small_order_point_is_refused() -> None:
    """All eight points in every encoding: both signs, and y written as y + p where that fits."""
    for y in small_order_points():
        for value in (y, y + P):
            for sign in (0, 1 << 255):
                if value < 1 << 255:
                    with pytest.raises(VerificationError):
                        ed25519.public_key((value | sign).to_bytes(32, "little"))


def test_openssl_alone_would_accept_the_identity_key() -> None:
    """Why the filter exists: one constant signature verifies any message under the identity point."""
    identity = (1).to_bytes(32, "little")
    constant = identity + bytes(32)
    key = Ed25519PublicKey.from_public_bytes(identity)
    for message in (b"one", b"two"):
        key.verify(constant, message)
        assert not ed25519.verifies(key, constant, message)
