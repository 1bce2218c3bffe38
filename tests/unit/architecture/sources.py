"""Our own source as syntax trees, for tests that read it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
HOUSES = ("orchestrator", "sandbox_images", "scoring", "workers")


def modules(*houses: str) -> Iterator[tuple[str, ast.Module, str]]:
    """(dotted name, syntax tree, text) of every module of ours; bundled pack data is not ours to import."""
    for house in houses or HOUSES:
        for path in sorted((ROOT / house).rglob("*.py")):
            relative = path.relative_to(ROOT)
            if "bundled" in relative.parts:
                continue
            name = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
            text = path.read_text()
            yield name, ast.parse(text), text


def imports_of(name: str, tree: ast.AST, *, is_package: bool) -> Iterator[str]:
    """Absolute names of everything imported anywhere in a module, also inside functions."""
    package = name if is_package else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parts, base]).strip(".")
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
