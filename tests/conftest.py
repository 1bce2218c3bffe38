"""Real Docker for integration tests: one runner per session, tiny orders on the shared base image.

It also makes every property test repeatable; ASSIZE_HYPOTHESIS=search draws new examples instead.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from orchestrator.attempts import AttemptOrder, Caps
from orchestrator.ids import new_id
from scoring.vocabulary import Phase
from tests.assets.services import databases as on
from tests.assets.services import engines as by
from tests.assets.services import fixtures as services
from tests.assets.services import schedule

if TYPE_CHECKING:  # unit tests need no Docker SDK
    from workers.attempt.runner import AttemptRunner
    from workers.sandbox.client import Engine

# The same examples in every run, and no verdict by the speed of a busy machine.
_ANY_SPEED = [HealthCheck.too_slow]
settings.register_profile("repeatable", deadline=None, derandomize=True, suppress_health_check=_ANY_SPEED)
settings.register_profile("search", deadline=None, max_examples=2_000, suppress_health_check=_ANY_SPEED)
settings.load_profile(os.environ.get("ASSIZE_HYPOTHESIS", "repeatable"))

# A shell lets what it starts in the background ignore Ctrl-C, which every program under test would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

postgres_server = services.postgres_server
postgres_url = services.postgres_url
empty_postgres_url = services.empty_postgres_url
own_postgres = services.own_postgres
redis_server = services.redis_server
s3_server = services.s3_server
databases = on.databases
engines = by.engines
folders_made = on.folders_made
homes_ask_for_their_database = on.homes_ask_for_their_database
every_ledger_is_accounted_for = on.every_ledger_is_accounted_for

HOME_ID = f"pytest-{os.getpid()}"
MIB = 1 << 20


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The database of a test is known before its first fixture."""
    on.begin(item)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that is about one database does not run on the other."""
    on.only_where_it_belongs(config, items)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """What belongs together stays together."""
    return schedule.scheduler(config, log)


class Control:
    """Collects the phases of one attempt; `stop` cancels it, `until` bounds its model calls."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self.stop = False
        self.until: float | None = None
        self.on_phase: Callable[[Phase], None] = lambda phase: None

    def phase(self, phase: Phase) -> None:
        self.phases.append(phase)
        self.on_phase(phase)

    def cancelled(self) -> bool:
        return self.stop

    def calls_until(self) -> float | None:
        return self.until


@pytest.fixture(scope="session", autouse=True)
def no_passphrase_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Homes keep the passphrase of their keys in the user's configuration; those of tests do not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The engine that `make setup` ensured; these tests fail, never skip, without one."""
    from workers.sandbox.client import Engine

    found = Engine()
    yield found
    found.close()


@pytest.fixture(scope="session")
def base_image(engine: Engine) -> str:
    return str(engine.api.inspect_image("assize/base:1")["Id"])  # type: ignore[no-untyped-call]


@pytest.fixture(scope="session", autouse=True)
def no_bundles_left(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Homes keep their agents' bundles as volumes; those of tests are temporary, and so are these.

    Other sessions of tests and installations may work on the same engine: theirs are left alone.
    """
    yield
    if not any(item.get_closest_marker("docker") for item in request.session.items):
        return
    from tests.assets.services.volumes import remove_bundles
    from workers.sandbox.client import Engine

    engine = Engine()
    remove_bundles(engine, tmp_path_factory.getbasetemp(), HOME_ID)
    engine.close()


@pytest.fixture(scope="session")
def runner() -> Iterator[AttemptRunner]:
    from workers.attempt.runner import AttemptRunner
    from workers.sandbox.client import Engine

    made = AttemptRunner()
    yield made
    assert made.close() == []
    left = Engine()
    ours = {"label": f"assize.home={HOME_ID}"}
    found = left.api.containers(all=True, filters=ours)
    for volume in left.api.volumes(filters=ours)["Volumes"] or []:
        left.api.remove_volume(volume["Name"])
    left.close()
    assert found == [], "a test left containers behind"


@pytest.fixture
def control() -> Control:
    return Control()


@pytest.fixture
def make_order(tmp_path: Path, base_image: str) -> Callable[..., AttemptOrder]:
    """Builds an order for a throw-away task: `solve` is the agent's script, `test` the hidden test."""

    def make(solve: str, test: str, **changes: Any) -> AttemptOrder:
        task = tmp_path / new_id()
        (task / "tests").mkdir(parents=True)
        (task / "solution").mkdir()
        (task / "tests" / "test.sh").write_text(test)
        (task / "solution" / "solve.sh").write_text(solve)
        slot, attempt = new_id(), new_id()
        values: dict[str, Any] = {
            "screening_id": new_id(),
            "slot_id": slot,
            "attempt_id": attempt,
            "token": 1,
            "attempt": 1,
            "task_id": "tiny",
            "index": 1,
            "task_dir": task,
            "task_digest": hashlib.sha256(f"{solve}\0{test}".encode()).hexdigest(),
            "instruction": "Create /workspace/out.txt.\n",
            "test_files": ("test.sh",),
            "solution_files": ("solve.sh",),
            "agent": {"kind": "oracle"},
            "bundle_dir": None,
            "bundle_digest": None,
            "agent_image": base_image,
            "grader_image": base_image,
            "grader_has_tests": False,
            "separate": False,
            "agent_user": None,
            "workdir": "/tmp",
            "caps": Caps(20_000, 20_000, 128 * MIB, 1000, 64, 1 * MIB, 8 * MIB),
            "grading": "fresh",
            "artifacts": (),
            "environment": {},
            "solution_environment": {},
            "grader_environment": {},
            "grader_user": None,
            "reward_key": "reward",
            "reward_at_least": "1",
            "reward_max": "1",
            "grader_proven": True,
            "runtime": "runc",
            "evidence_root": tmp_path / "evidence",
            "labels": {
                "assize.home": HOME_ID,
                "assize.screening": "tiny",
                "assize.attempt": f"{slot}/1",
            },
        }
        return AttemptOrder(**{**values, **changes})

    return make
