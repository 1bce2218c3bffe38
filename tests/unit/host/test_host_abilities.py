"""What a host can enforce: from what was seen to abilities with their mend; what is refused before a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import docker.errors
import pytest
import requests

from orchestrator import host_abilities
from orchestrator.errors import HostError
from orchestrator.host_abilities import Seen, as_data, judge, observe, require_conditions

INFO: dict[str, Any] = {
    "CgroupVersion": "2",
    "CgroupDriver": "systemd",
    "SecurityOptions": ["name=seccomp,profile=builtin"],
    "Runtimes": {
        "runc": {"path": "runc"},
        "runsc": {"path": "/usr/bin/runsc", "runtimeArgs": ["--network=none"]},
        "io.containerd.runc.v2": {"path": "runc"},
    },
    "DockerRootDir": "/nonexistent",
}
WHOLE = Seen(
    INFO,
    {"runc": "runc version 1.1.5", "runsc": "runsc version release-20240513.0"},
    "",
    (),
    True,
    True,
    True,
)
QUOTA = "--storage-opt is supported only for overlay over xfs with 'pquota' mount option"


def abilities(**changes: Any) -> dict[str, tuple[bool, str, str | None]]:
    found = judge(replace(WHOLE, **changes))
    assert len({one.name for one in found}) == len(found)
    assert all(one.holds or one.mend for one in found), "whatever does not hold says how it could"
    return {one.name: (one.holds, one.detail, one.mend) for one in found}


REMAPPED = {**INFO, "SecurityOptions": ["name=seccomp,profile=builtin", "name=userns"]}


def test_a_host_that_can_everything() -> None:
    """Issue 6: cgroups, user namespaces, seccomp, quota, disks and runtimes, each with what was found.

    Remapped users and sized disks exclude each other, so there are two such hosts.
    """
    found, remapped = abilities(), abilities(info=REMAPPED)
    assert [name for name, (holds, *_) in found.items() if not holds] == ["user namespaces"]
    assert [name for name, (holds, *_) in remapped.items() if not holds] == ["strict disk", "loop disk"]
    assert list(found) == [
        "cgroup counters",
        "user namespaces",
        "seccomp",
        "disk quota",
        "strict disk",
        "loop disk",
        "runtime runc",
        "runtime runsc",
    ]
    assert found["runtime runsc"][1] == "/usr/bin/runsc: runsc version release-20240513.0 --network=none"
    assert as_data(judge(WHOLE))["disk quota"]["holds"] is True


@pytest.mark.parametrize(
    ("name", "changes", "word"),
    [
        ("cgroup counters", {"cgroups_readable": False}, "/sys/fs/cgroup"),
        ("user namespaces", {}, "userns-remap"),
        ("strict disk", {"info": REMAPPED}, "--disk writable"),
        ("loop disk", {"info": REMAPPED}, "--disk writable"),
        ("seccomp", {"info": {**INFO, "SecurityOptions": ["name=userns"]}}, "seccomp"),
        ("seccomp", {"info": {**INFO, "SecurityOptions": ["name=seccomp,profile=unconfined"]}}, "unconfined"),
        ("disk quota", {"quota": QUOTA}, "--disk strict"),
        ("disk quota", {"quota": None}, "make setup"),
        ("strict disk", {"layers_readable": False}, "overlay2"),
        ("loop disk", {"layers_readable": False}, "as root"),
        ("loop disk", {"loop_control": False}, "loop module"),
        ("loop disk", {"loop_missing": ("debugfs",)}, "e2fsprogs"),
        ("runtime runsc", {"versions": {"runsc": "runsc version 0.0~20221219.0"}}, "20230501"),
        ("runtime runsc", {"versions": {"runsc": "runsc version release-20221212.0"}}, "20230501"),
        (
            "runtime runsc",
            {
                "info": {
                    **INFO,
                    "Runtimes": {"runsc": {"path": "x", "runtimeArgs": ["--ignore-cgroups=true"]}},
                }
            },
            "--ignore-cgroups",
        ),
    ],
)
def test_what_does_not_hold_says_how_to_mend_it(name: str, changes: dict[str, Any], word: str) -> None:
    """And nothing else of the list changes its mind."""
    holds, _, mend = abilities(**changes)[name]
    assert not holds and mend is not None and word in mend


@pytest.mark.parametrize("version", ["", "runsc version release-20230501.0", "runsc version VERSION_MISSING"])
def test_versions_that_are_new_or_unknown_are_not_called_old(version: str) -> None:
    """Nobody is told to renew what cannot be read."""
    assert abilities(versions={"runsc": version})["runtime runsc"][0]


class FakeApi:
    """The few answers of an engine that are asked for."""

    def __init__(self, refusal: str | None = None) -> None:
        self.refusal, self.made, self.removed = refusal, 0, 0

    def info(self) -> dict[str, Any]:
        return INFO

    def create_container_from_config(self, body: dict[str, Any]) -> dict[str, str]:
        assert body["HostConfig"]["StorageOpt"] == {"size": "64m"}
        if self.refusal is not None:
            raise docker.errors.APIError("no", explanation=self.refusal)
        self.made += 1
        return {"Id": "x"}

    def remove_container(self, container_id: str, force: bool) -> None:
        assert (container_id, force) == ("x", True)
        self.removed += 1


def test_the_quota_is_asked_by_a_container_that_is_removed_again() -> None:
    """Its refusal is the answer; without an image there is none."""
    taking = FakeApi()
    assert observe(taking, "image").quota == "" and (taking.made, taking.removed) == (1, 1)
    assert observe(FakeApi(QUOTA), "image").quota == QUOTA
    assert observe(FakeApi(), None).quota is None


def test_a_condition_that_the_host_cannot_give_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver 5: never silently replaced. Every refusal names what is there, or what is missing."""
    monkeypatch.setattr(host_abilities, "observe", lambda api: WHOLE)
    for runtime, disk in (("runc", "writable"), ("runsc", "strict"), ("runc", "loop")):
        require_conditions(None, runtime, disk)
    with pytest.raises(HostError, match=r"no runtime kata; it has .*runc, runsc"):
        require_conditions(None, "kata", "writable")
    lacking = replace(WHOLE, layers_readable=False, loop_missing=("losetup",))
    monkeypatch.setattr(host_abilities, "observe", lambda api: lacking)
    for disk in ("strict", "loop"):
        with pytest.raises(HostError, match=f"no {disk} disk here") as caught:
            require_conditions(None, "runc", disk)
        assert caught.value.hint is not None
    require_conditions(None, "runc", "writable")
    monkeypatch.setattr(host_abilities, "observe", lambda api: replace(WHOLE, info=REMAPPED))
    with pytest.raises(HostError, match="remaps users"):
        require_conditions(None, "runc", "strict")
    require_conditions(None, "runc", "writable")

    def silent(api: Any) -> Seen:
        raise requests.ConnectionError("gone")

    monkeypatch.setattr(host_abilities, "observe", silent)
    with pytest.raises(HostError, match="does not answer"):
        require_conditions(None, "runc", "writable")
