"""Nothing of Celery may hold state of a try: read from the source (reference/distribution.md, verdict 4)."""

from __future__ import annotations

import ast

import pytest

from tests.unit.architecture.sources import imports_of, modules

HOUSE = "orchestrator.engine.celery"
FORBIDDEN_CALLS = {
    "apply_async",
    "backend_cleanup",
    "chord",
    "chunks",
    "delay",
    "group",
    "retry",
    "revoke",
    "signature",
    "starmap",
}
"""Ways of Celery to keep something outside of the database, or to run a task other than by our publisher."""

FORBIDDEN_WORDS = {
    "countdown",
    "eta",
    "expires",
    "link",
    "link_error",
    "priority",
    "rate_limit",
    "max_retries",
}
"""Arguments of a task or a message that would do so."""

FORBIDDEN_IMPORTS = ("celery.canvas", "celery.result", "celery.beat", "celery.schedules", "celery.contrib")


def users() -> list[tuple[str, ast.Module]]:
    """Every module of ours that imports Celery or kombu."""
    found = []
    for name, tree, _ in modules():
        tops = {target.split(".")[0] for target in imports_of(name, tree, is_package=False)}
        if tops & {"celery", "kombu", "billiard"}:
            found.append((name, tree))
    return found


def misuse(tree: ast.AST) -> list[str]:
    """Calls, arguments and imports that are not allowed."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in FORBIDDEN_CALLS:
                found.append(f"{node.lineno}: {called}()")
            found += [f"{node.lineno}: {word.arg}=" for word in node.keywords if word.arg in FORBIDDEN_WORDS]
    found += [
        target for target in imports_of("x", tree, is_package=False) if target.startswith(FORBIDDEN_IMPORTS)
    ]
    return found


def test_only_one_house_knows_celery() -> None:
    """The transport can be changed: everything else speaks to the ledger."""
    assert {name.rpartition(".")[0] for name, _ in users()} == {HOUSE}


def test_nothing_of_celery_is_state() -> None:
    """No canvas, result, ETA, retry, rate limit, priority, revoke or beat in the path of a try."""
    assert {name: misuse(tree) for name, tree in users() if misuse(tree)} == {}


@pytest.mark.parametrize(
    "source",
    [
        "task.apply_async(countdown=3)",
        "chord(tasks)",
        "app.send_task('x', eta=now)",
        "app.control.revoke(task_id)",
        "self.retry()",
        "from celery.result import AsyncResult",
    ],
)
def test_the_check_can_fail(source: str) -> None:
    """Each forbidden way is seen."""
    assert misuse(ast.parse(source))
