"""The tests' own broom: bundles of this session go, those of anybody else stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.ids import new_id
from orchestrator.screenings.installation import home_label
from tests.assets.services.volumes import remove_bundles
from workers.sandbox.bundles import LABEL
from workers.sandbox.client import Engine
from workers.sandbox.reaper import HOME_LABEL

pytestmark = pytest.mark.docker


@pytest.fixture
def volume_of(engine: Engine) -> Iterator[Callable[[str], str]]:
    """Makes an empty volume that looks like a bundle's, of the home with this label."""
    made: list[str] = []

    def make(label: str) -> str:
        labels = {LABEL: "0" * 64, HOME_LABEL: label}
        made.append(engine.api.create_volume(f"assize-agent-test-{new_id()}", labels=labels)["Name"])
        return made[-1]

    yield make
    left = {one["Name"] for one in engine.api.volumes(filters={"label": LABEL})["Volumes"] or []}
    for name in left.intersection(made):
        engine.api.remove_volume(name)


def test_only_volumes_of_this_session_are_removed(
    engine: Engine, tmp_path: Path, volume_of: Callable[[str], str]
) -> None:
    """Whoever else made one while the tests ran keeps it, whether it is in use or not."""
    (tmp_path / "deep" / "home").mkdir(parents=True)
    ours = [volume_of(home_label(tmp_path / "deep" / "home")), volume_of("pytest-4711")]
    others = [volume_of(home_label(tmp_path.parent / "another")), volume_of("pytest-4712")]
    removed = remove_bundles(engine, tmp_path, "pytest-4711")
    assert sorted(removed) == sorted(ours)
    left = {one["Name"] for one in engine.api.volumes(filters={"label": LABEL})["Volumes"]}
    assert left.issuperset(others)
