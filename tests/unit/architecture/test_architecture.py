"""The rules of DESIGN section 2, read from the source: who imports whom, no cycles, sizes, no shortcuts."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.unit.architecture.sources import ROOT, imports_of, modules

MAX_MODULE_LINES, MAX_FUNCTION_LINES = 500, 60

ALLOWED = {
    "scoring": set[str](),
    "sandbox_images": set[str](),
    "orchestrator": {"scoring", "sandbox_images"},
    "workers": {"scoring", "orchestrator", "sandbox_images"},
}
"""Imports go one way: workers -> orchestrator -> scoring; sandbox_images is a leaf."""


def graph() -> dict[str, set[str]]:
    """Module -> modules of ours that it imports."""
    known = {name for name, _, _ in modules()}
    edges: dict[str, set[str]] = {}
    for name, tree, _ in modules():
        is_package = (ROOT / Path(*name.split(".")) / "__init__.py").exists()
        found = {target for target in imports_of(name, tree, is_package=is_package) if target in known}
        edges[name] = found - {name}
    return edges


def test_imports_go_one_way() -> None:
    """workers -> orchestrator -> scoring, and sandbox_images imports nothing of ours."""
    wrong = [
        f"{name} imports {target}"
        for name, targets in graph().items()
        for target in targets
        if (house := target.split(".")[0]) != name.split(".")[0] and house not in ALLOWED[name.split(".")[0]]
    ]
    assert wrong == []


def strongly_connected(edges: dict[str, set[str]]) -> list[list[str]]:
    """Tarjan's algorithm, iterative enough for our depth; components of more than one node."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in edges.get(node, ()):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            component = []
            while True:
                member = stack.pop()
                component.append(member)
                if member == node:
                    break
            if len(component) > 1:
                found.append(sorted(component))

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        for node in edges:
            if node not in index:
                visit(node)
    finally:
        sys.setrecursionlimit(limit)
    return found


def test_no_module_cycles() -> None:
    """No module imports itself by a detour."""
    assert strongly_connected(graph()) == []


def test_the_cycle_finder_finds_cycles() -> None:
    """The check above can fail."""
    assert strongly_connected({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_no_package_cycles() -> None:
    """No two packages of a house import each other, not even through other packages."""
    edges: dict[str, set[str]] = {}
    for name, targets in graph().items():
        package = ".".join(name.split(".")[:2])
        edges.setdefault(package, set()).update(
            other for target in targets if (other := ".".join(target.split(".")[:2])) != package
        )
    assert strongly_connected(edges) == []


def test_sizes() -> None:
    """No module over 500 lines, no function over 60 (issue 2)."""
    long = [
        f"{name}: {text.count(chr(10))} lines"
        for name, _, text in modules()
        if text.count("\n") > MAX_MODULE_LINES
    ]
    for name, tree, _ in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    long.append(f"{name}.{node.name}: {lines} lines")
    assert long == []


def test_no_bare_except_and_no_print() -> None:
    """Typed errors only; output goes through the CLI."""
    found = []
    for name, tree, _ in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler) and node.type is None:
                found.append(f"{name}:{node.lineno} bare except")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                found.append(f"{name}:{node.lineno} print")
    assert found == []


@pytest.mark.parametrize(
    "forbidden", ["os", "time", "random", "secrets", "socket", "pathlib", "io", "subprocess"]
)
def test_scoring_is_pure(forbidden: str) -> None:
    """DESIGN section 2: scoring does no I/O, has no clock and no environment."""
    users = [
        name
        for name, tree, _ in modules("scoring")
        if forbidden in {target.split(".")[0] for target in imports_of(name, tree, is_package=False)}
    ]
    assert users == []


def test_workers_hold_no_key() -> None:
    """DESIGN section 3 step 8: nothing in workers can sign or open the ledger."""
    secret = ("orchestrator.certificates", "orchestrator.ledger", "orchestrator.screenings")
    users = [
        f"{name} imports {target}"
        for name, targets in graph().items()
        if name.startswith("workers")
        for target in targets
        if target.startswith(secret)
    ]
    assert users == []


def test_every_module_says_what_it_is_for() -> None:
    """A reader learns from the first line of every module."""
    assert [name for name, tree, _ in modules() if not ast.get_docstring(tree)] == []
