"""What scoring may import and call, and who may build a verified try (DESIGN sections 2 and 9)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from scoring_builders import REPO

SCORING = sorted((REPO / "scoring").rglob("*.py"))
HOUSES = ("orchestrator", "workers", "scoring", "sandbox_images")
HANDOVER = "orchestrator/handover.py"

ALLOWED_IMPORTS = {
    "__future__",
    "collections",
    "collections.abc",
    "dataclasses",
    "decimal",
    "enum",
    "fractions",
    "hashlib",
    "itertools",
    "json",
    "math",
    "re",
    "typing",
    "numpy",
    "numpy.typing",
    "scipy",
    "scipy.sparse",
    "scipy.special",
}
SEALED = ("attest", "_SEAL")
FORBIDDEN_NAMES = {"open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint", "globals"}


def imports(tree: ast.AST) -> Iterator[str]:
    """Full module names of every import, also inside functions; a relative import keeps its dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def import_faults(tree: ast.AST) -> list[str]:
    return [name for name in imports(tree) if name not in ALLOWED_IMPORTS and name.split(".")[0] != "scoring"]


def call_faults(tree: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES]


def attest_uses(tree: ast.AST) -> list[int]:
    """Lines that reach for `attest` in any way: attribute, name, import, or text handed to getattr."""
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt) and reaches(node)]


def reaches(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in SEALED
    if isinstance(node, ast.Name):
        return node.id in SEALED
    if isinstance(node, ast.ImportFrom):
        return any(alias.name in SEALED for alias in node.names)
    return isinstance(node, ast.Constant) and node.value in SEALED


def parse(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@pytest.mark.parametrize("path", SCORING, ids=lambda path: path.name)
def test_scoring_imports_nothing_of_ours_and_nothing_impure(path: Path) -> None:
    """No os, io, time, datetime, random, sockets; only the listed modules and scoring itself."""
    assert import_faults(parse(path)) == []


@pytest.mark.parametrize("path", SCORING, ids=lambda path: path.name)
def test_scoring_calls_no_input_or_output(path: Path) -> None:
    """No built-in that reads, prints or runs text."""
    assert call_faults(parse(path)) == []


def test_a_verified_try_is_attested_by_the_handover_only() -> None:
    """`VerifiedTry.attest` and its seal are reached for in orchestrator/handover.py and nowhere else."""
    offenders = []
    for house in HOUSES:
        for path in sorted((REPO / house).rglob("*.py")):
            name = path.relative_to(REPO).as_posix()
            if name not in (HANDOVER, "scoring/tries.py") and attest_uses(parse(path)):
                offenders.append(name)
    assert offenders == []


def test_the_input_module_itself_uses_the_seal_in_one_place() -> None:
    """scoring/tries.py is allowed its own seal: defined once, checked once, used by attest once."""
    assert len(attest_uses(parse(REPO / "scoring" / "tries.py"))) == 3


@pytest.mark.parametrize(
    "source",
    [
        "VerifiedTry.attest(task_id='t')",
        "build = VerifiedTry.attest",
        "getattr(VerifiedTry, 'attest')()",
        "from scoring.tries import _SEAL",
        "seal = _SEAL",
    ],
)
def test_the_attest_check_can_fail(source: str) -> None:
    """Each way around the handover that the check claims to see is seen."""
    assert attest_uses(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "import time as t",
        "from datetime import datetime",
        "import random",
        "from io import StringIO",
        "def f():\n    import socket",
        "from orchestrator.ids import x",
        "import workers.attempt",
        "from sandbox_images import lock",
        "from . import tries",
    ],
)
def test_the_import_check_can_fail(source: str) -> None:
    """Impure, foreign and relative imports are seen, also inside a function."""
    assert import_faults(ast.parse(source))
    assert call_faults(ast.parse("with open('x'): pass")) == ["open"]
