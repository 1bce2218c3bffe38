"""The suite of hostile agents as data: one run for all cases of a runtime, and a test for each of them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.assets.services.engines import Engines
    from workers.sandbox.client import Engine

ASSETS = Path(__file__).parents[2] / "assets"
OWN = ASSETS / "hostile" / "agents.json"
SHARED = Path(__file__).resolve().parents[4] / "shared" / "cases" / "hostile_agents.json"
RUNTIMES = ("runc", "runsc")


def _load(family: str, name: str) -> ModuleType:
    """A module of an assets folder."""
    return importlib.import_module(f"tests.assets.{family}.{name}")


def _cases() -> tuple[dict[str, Any], list[Path]]:
    """Every case of the file that is named, else of our own and the one beside the checkout; absent files."""
    named = os.environ.get("ASSIZE_HOSTILE_CASES")
    files = [Path(named)] if named else [OWN, SHARED]
    found: dict[str, Any] = {}
    for path in files:
        if named or path.exists():
            found |= {case.id: case for case in _load("hostile", "case_format").read_cases(path)}
    return found, [path for path in files if not path.exists()]


def _runtimes(case: Any) -> tuple[str, ...]:
    return RUNTIMES if case.needs.runtime is None else (case.needs.runtime,)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test per runtime and case; a file that is not there is told by name."""
    if {"runtime", "case_id"} - set(metafunc.fixturenames):
        return
    cases, absent = _cases()
    order = sorted(
        ((runtime, name) for name, case in cases.items() for runtime in _runtimes(case)),
        key=lambda one: one[0],
    )
    found = [pytest.param(*one, id="-".join(one)) for one in order]
    for path in absent:
        why = pytest.mark.skip(reason=f"the case file {path.name} is not beside the checkout")
        found.append(pytest.param("runc", path.stem, id=path.stem, marks=why))
    metafunc.parametrize(("runtime", "case_id"), found)


@pytest.fixture(scope="session")
def hostile_part() -> Callable[[str], ModuleType]:
    """Gives a module of the suite by its name: `case_format`, `case_canaries`, `case_house`, `case_rules`."""

    def part(name: str) -> ModuleType:
        return _load("hostile", name)

    return part


@pytest.fixture(scope="session")
def played(
    tmp_path_factory: pytest.TempPathFactory,
    engine: Engine,
    engines: Engines,
    hostile_part: Callable[[str], ModuleType],
) -> Callable[[str], Mapping[str, Any]]:
    """What was seen of all cases under a runtime, by case id; they are run when the first is asked for."""
    done: dict[str, Mapping[str, Any]] = {}

    def under(runtime: str) -> Mapping[str, Any]:
        if runtime not in done:
            house, shared = hostile_part("case_house"), _load("relayed", "provider")
            cases = [
                case
                for case in _cases()[0].values()
                if runtime in _runtimes(case) and unfit(case, runtime, engine) is None
            ]
            provider = shared.Provider()
            try:
                folder = tmp_path_factory.mktemp(f"siege-{engines.name}-{runtime}")
                done[runtime] = house.Siege(folder, engine, provider, shared, runtime, engines).run(cases)
            finally:
                provider.close()
        return done[runtime]

    return under


def unfit(case: Any, runtime: str, engine: Engine) -> str | None:
    """Why this engine cannot run a case under a runtime, as far as its operator has decided it."""
    known = engine.info().get("Runtimes") or {}
    if runtime not in known:
        return f"this engine has no runtime {runtime}; docs/hardening.md says how to add it"
    if case.needs.relay and "--network=none" in (known[runtime].get("runtimeArgs") or ()):
        return f"{runtime} is registered without any network here, so nothing inside reaches a relay"
    return None


@pytest.fixture(scope="session")
def unfit_because(engine: Engine) -> Callable[[str, str], str | None]:
    """Why a case (by id) cannot be run under a runtime; None when it can."""
    return lambda runtime, case_id: unfit(_cases()[0][case_id], runtime, engine)
