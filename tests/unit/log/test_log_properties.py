"""Any proof of any tree verifies, any changed bit does not, and no input breaks a parser in another way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.log import checkpoint, entry, note, proof, tiles, tree, witness
from orchestrator.log.checkpoint import log_key
from orchestrator.log.proof import LogVerifier
from orchestrator.log.tiles import ENTRIES, HEIGHT, WIDTH, Edge, Tiles, tile_path
from orchestrator.verification.errors import VerificationError

LEAVES = [tree.leaf_hash(b"%d" % number) for number in range(300)]
SHARED_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def node(level: int, index: int) -> bytes:
    return tree.root(LEAVES[index << level : (index + 1) << level])


def by_definition(leaves: list[bytes]) -> bytes:
    """RFC 6962 section 2.1, word by word: the oracle for everything faster."""
    if len(leaves) < 2:
        return leaves[0] if leaves else tree.EMPTY_ROOT
    split = 1
    while 2 * split < len(leaves):
        split *= 2
    return tree.node_hash(by_definition(leaves[:split]), by_definition(leaves[split:]))


def refused(check: Callable[..., object], *values: Any) -> bool:
    try:
        check(*values)
    except VerificationError:
        return True
    return False


def flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8 % len(data)] ^= 1 << bit % 8
    return bytes(changed)


@given(st.integers(0, 300))
def test_root_is_the_definition(size: int) -> None:
    """Three ways to a root: by rows, from complete subtrees, from a growing edge."""
    expected = by_definition(LEAVES[:size])
    edge = Edge()
    assert tree.root(LEAVES[:size]) == expected == tree.tree_root(node, size)
    assert len(list(edge.extend(b"".join(LEAVES[:size])))) == size // WIDTH
    assert edge.root() == expected


@given(st.data())
def test_inclusion_of_any_leaf(data: st.DataObject) -> None:
    """Any index of any tree verifies; every single-bit change and every other place is refused."""
    size = data.draw(st.integers(1, 300))
    index = data.draw(st.integers(0, size - 1))
    path, root = tree.inclusion_proof(node, index, size), tree.root(LEAVES[:size])
    tree.verify_inclusion(LEAVES[index], index, size, path, root)
    bit = data.draw(st.integers(0, 255))
    assert refused(tree.verify_inclusion, flip(LEAVES[index], bit), index, size, path, root)
    assert refused(tree.verify_inclusion, LEAVES[index], index, size, path, flip(root, bit))
    for at in range(len(path)):
        changed = [*path[:at], flip(path[at], bit), *path[at + 1 :]]
        assert refused(tree.verify_inclusion, LEAVES[index], index, size, changed, root)
        assert refused(tree.verify_inclusion, LEAVES[index], index, size, path[:at] + path[at + 1 :], root)
    assert refused(tree.verify_inclusion, LEAVES[index], index, size, [*path, root], root)
    other = data.draw(st.integers(-2, 310).filter(lambda number: number != index))
    assert refused(tree.verify_inclusion, LEAVES[index], other, size, path, root)


@given(st.data())
def test_known_paths_accept_what_the_plain_verifier_does(data: st.DataObject) -> None:
    """A verifier that has seen other proofs of the tree answers about any proof as one that has not."""
    size = data.draw(st.integers(1, 300))
    root = tree.root(LEAVES[:size])
    known = tree.KnownPaths(size, root)
    for _ in range(data.draw(st.integers(1, 12))):
        index = data.draw(st.integers(0, size - 1))
        path, leaf = tree.inclusion_proof(node, index, size), LEAVES[index]
        place = data.draw(st.integers(0, len(path) - 1)) if path else -1
        match data.draw(st.sampled_from(["good", "good", "leaf", "hash", "short", "long", "index", "cut"])):
            case "leaf":
                leaf = flip(leaf, data.draw(st.integers(0, 255)))
            case "hash" if path:
                path[place] = flip(path[place], data.draw(st.integers(0, 255)))
            case "cut" if path:
                path[place] = path[place][:-1]
            case "short" if path:
                del path[place]
            case "long":
                path.insert(place, data.draw(st.sampled_from([root, leaf, *path])))
            case "index":
                index = data.draw(st.integers(-2, 310))
        plain = refused(tree.verify_inclusion, leaf, index, size, tuple(path), root)
        assert refused(known.verify, leaf, index, tuple(path)) == plain


@given(st.data())
def test_consistency_of_any_prefix(data: st.DataObject) -> None:
    """Any earlier size verifies; every changed bit, size or number of hashes is refused."""
    size = data.draw(st.integers(1, 300))
    old = data.draw(st.integers(1, size))
    path = tree.consistency_proof(node, old, size)
    roots = tree.root(LEAVES[:old]), tree.root(LEAVES[:size])
    tree.verify_consistency(old, roots[0], size, roots[1], path)
    bit = data.draw(st.integers(0, 255))
    assert refused(tree.verify_consistency, old, flip(roots[0], bit), size, roots[1], path)
    assert refused(tree.verify_consistency, old, roots[0], size, flip(roots[1], bit), path)
    for at in range(len(path)):
        changed = [*path[:at], flip(path[at], bit), *path[at + 1 :]]
        assert refused(tree.verify_consistency, old, roots[0], size, roots[1], changed)
        assert refused(tree.verify_consistency, old, roots[0], size, roots[1], path[:at] + path[at + 1 :])
    assert refused(tree.verify_consistency, old, roots[0], size, roots[1], [*path, roots[1]])
    assert refused(tree.verify_consistency, 0, tree.EMPTY_ROOT, size, roots[1], path)
    if old < size:
        other = data.draw(st.integers(1, size - 1).filter(lambda number: number != old))
        assert refused(tree.verify_consistency, other, roots[0], size, roots[1], path)


def write_tiles(folder: Path, leaves: list[bytes], steps: list[int], *, drop: bool) -> None:
    """A tree as files, grown in steps; partial tiles of earlier steps stay or go."""
    edge = Edge()
    files: dict[str, bytes] = {}
    for start, end in zip([0, *steps], steps, strict=False):
        new = {tile_path(*key): raw for *key, raw in edge.extend(b"".join(leaves[start:end]))}
        if drop:
            files = {path: raw for path, raw in files.items() if path.partition(".p/")[0] not in new}
        files |= new
        for level, number, row in edge.partial():
            files[tile_path(level, number, len(row) // 32)] = row
    for path, raw in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(raw)


@pytest.mark.parametrize("drop", [False, True], ids=["partials-kept", "partials-dropped"])
def test_tiles_give_the_same_proofs(drop: bool, tmp_path: Path) -> None:
    """Roots and proofs from files equal those from memory, at every size that ever had a checkpoint."""
    many = [tree.leaf_hash(b"%d" % number) for number in range(1100)]
    steps = [1, 2, 255, 256, 257, 300, 511, 512, 700, 1024, 1100]
    write_tiles(tmp_path, many, steps, drop=drop)

    def in_memory(level: int, index: int) -> bytes:
        return tree.root(many[index << level : (index + 1) << level])

    for size in steps:
        read = Tiles(tmp_path, size, cache_tiles=2)
        assert read.root() == tree.root(many[:size])
        for index in {0, size // 2, size // 3, size - 1}:
            assert read.inclusion_proof(index) == tree.inclusion_proof(in_memory, index, size)
        for old in [step for step in steps if step <= size]:
            assert read.consistency_proof(old) == tree.consistency_proof(in_memory, old, size)


def test_tiles_of_three_levels(tmp_path: Path) -> None:
    """70,000 leaves: widths are those of the example in the tiles specification, proofs verify."""
    many = [tree.leaf_hash(b"%d" % number) for number in range(70_000)]
    write_tiles(tmp_path, many, [70_000], drop=True)
    names = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    level = {n: [name for name in names if name.startswith(f"tile/{n}/")] for n in range(3)}
    assert len(level[0]) == 274 and "tile/0/273.p/112" in level[0]
    assert sorted(level[1]) == ["tile/1/000", "tile/1/001.p/17"]
    assert level[2] == ["tile/2/000.p/1"]
    read, root = Tiles(tmp_path, 70_000, cache_tiles=4), tree.root(many)
    assert read.root() == root
    for index in (0, 255, 256, 65_535, 65_536, 69_999):
        tree.verify_inclusion(many[index], index, 70_000, read.inclusion_proof(index), root)
    for old in (1, 256, 65_536, 69_999):
        tree.verify_consistency(old, tree.root(many[:old]), 70_000, root, read.consistency_proof(old))
    assert len(read._cache) <= 4


def test_tile_paths() -> None:
    """The examples of the tiles specification."""
    assert tile_path(0, 1_234_067) == "tile/0/x001/x234/067"
    assert tile_path(ENTRIES, 5, 17) == "tile/entries/005.p/17"
    assert tile_path(1, 1000) == "tile/1/x001/000"
    assert tiles.widths(70_000) == [70_000, 273, 1] and HEIGHT == 8


@given(st.lists(st.binary(max_size=70), max_size=30))
def test_bundles_round_trip(items: list[bytes]) -> None:
    """Entries come out of a bundle as they went in; a torn bundle is refused."""
    raw = tiles.join_bundle(items)
    assert tiles.split_bundle(raw, len(items)) == items
    assert refused(tiles.split_bundle, raw, len(items) + 1)
    if items:
        assert refused(tiles.split_bundle, raw[:-1], len(items))


def test_every_bit_of_a_proof_counts(lab: ModuleType) -> None:
    """A genuine proof with one bit changed anywhere never verifies."""
    log = lab.Log(lab.entries(6))
    verifier = LogVerifier(log_key(log.origin, log.key.public))
    raw = log.prove(3).encode()
    verifier.check(raw, log.items[3])
    for bit in range(8 * len(raw)):
        assert refused(verifier.check, flip(raw, bit), log.items[3]), (bit // 8, bit % 8)
    for bit in range(8 * len(log.items[3])):
        assert refused(verifier.check, raw, flip(log.items[3], bit))


def seeds(lab: ModuleType) -> list[bytes]:
    log, one = lab.Log(lab.entries(3)), lab.Witness("witness.example/w1")
    policy = f"log {log.vkey}\nwitness w1 {one.key.vkey}\ngroup g any w1\nquorum g\n"
    good = log.prove(1, more=[one.cosign(log.head())])
    return [good.encode(), good.checkpoint, policy.encode(), log.items[0], log.prove_consistency(2).encode()]


@SHARED_FOLDER
@given(data=st.data())
def test_parsers_raise_one_error_type(data: st.DataObject, lab: ModuleType) -> None:
    """Whatever the bytes, the answer is a value that re-encodes to them or `VerificationError`."""
    raw = data.draw(st.sampled_from(seeds(lab)) | st.binary(max_size=300))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(raw)))
        piece = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"\n", b" ", b"+", "—".encode(), b"=", b"0"])
        )
        raw = raw[:at] + piece + raw[at + data.draw(st.integers(0, 4)) :]
    for parse in (proof.parse_proof, proof.parse_consistency, note.parse, checkpoint.parse_body):
        try:
            found = parse(raw)
        except VerificationError:
            continue
        again = found.body() if isinstance(found, checkpoint.Checkpoint) else found.encode()
        assert again == raw
    for check in (witness.parse_policy, entry.check):
        refused(check, raw)
    refused(note.parse_vkey, raw.decode("utf-8", "replace"))
    log = lab.Log(lab.entries(3))
    refused(LogVerifier(log_key(log.origin, log.key.public)).check, raw, b"")
