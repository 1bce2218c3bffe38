"""The hardened profile as a table: complete, reasoned, the only source of what the engine is asked for."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from workers.errors import SandboxMismatchError
from workers.sandbox.options import NEVER, OPTIONS, OWN_KERNEL_THREADS, Ask, Limits, Writable
from workers.sandbox.profile import create_body, created_facts, host_config, verify_created

GUIDE = Path(__file__).parents[3] / "docs" / "hardening.md"
LIMITS = Limits(memory_bytes=128 << 20, cpus_milli=1500, pids=64, lifetime_s=90)
WRITABLE = Writable(
    ({"Type": "volume", "Source": "ws", "Target": "/w", "ReadOnly": False},), {"/tmp": "rw,size=1"}
)
ASKS = {
    "agent": Ask(LIMITS, "runc", False, {"bundle": "/opt/agent"}),
    "verifier": Ask(LIMITS, "runc", True, {}),
    "strict": Ask(LIMITS, "runc", False, {}, "none", WRITABLE),
    "pod": Ask(LIMITS, "runc", False, {}, "container:" + "c" * 64),
    "network": Ask(LIMITS, "runsc", False, {}, "d" * 64),
}


def strict_body() -> dict[str, Any]:
    return create_body(
        "sha256:" + "a" * 64,
        LIMITS,
        runtime="runc",
        grader=False,
        labels={},
        volumes={"bundle": "/opt/agent"},
        workdir="/w",
        writable=WRITABLE,
    )


def engine_says(body: dict[str, Any]) -> dict[str, Any]:
    """What an engine answers that did as it was told."""
    found = copy.deepcopy(body)
    config = {"User": body["User"], "NetworkDisabled": body["NetworkDisabled"]}
    return {"Image": body["Image"], "HostConfig": found["HostConfig"], "Config": config}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_nothing_is_asked_for_that_the_table_does_not_have(ask: Ask) -> None:
    """Issue 6: one declaration. What must never be there is not asked for either."""
    names = [option.name for option in OPTIONS]
    assert len(set(names)) == len(names) and not set(names) & set(NEVER)
    host = host_config(ask)
    assert [name for name in names if name in host] == list(host)
    left_out = {"Dns", "DnsOptions"} if not ask.bridged else set()
    assert set(names) - set(host) == left_out


def test_every_option_has_its_reason_in_the_guide() -> None:
    """docs/hardening.md shows the table as it is: name and reason of every option, and what is never set."""
    text = GUIDE.read_text("utf-8")
    rows = [f"| `{option.name}` | {option.why} |" for option in OPTIONS]
    rows += [f"| `{name}` | never: {why} |" for name, why in NEVER.items()]
    assert [row for row in rows if row not in text] == []
    assert text.count("\n| `") >= len(rows)


def test_a_sized_disk_makes_the_root_read_only() -> None:
    """Nothing but the places and the small temporary folders can be written."""
    host = strict_body()["HostConfig"]
    assert host["ReadonlyRootfs"] is True and host["Tmpfs"] == {"/tmp": "rw,size=1"}
    assert [(one["Source"], one["ReadOnly"]) for one in host["Mounts"]] == [("bundle", True), ("ws", False)]
    plain = host_config(ASKS["agent"])
    assert plain["ReadonlyRootfs"] is False and plain["Tmpfs"] == {}


def test_a_kernel_of_its_own_needs_room_for_its_threads() -> None:
    """sandbox.md 7: under runsc the cgroup counts host threads, so processes are limited inside as well."""
    own, usual = host_config(ASKS["network"]), host_config(ASKS["agent"])
    assert own["PidsLimit"] == LIMITS.pids + OWN_KERNEL_THREADS and usual["PidsLimit"] == LIMITS.pids
    assert {"Name": "nproc", "Soft": 64, "Hard": 64} in own["Ulimits"]
    assert "nproc" not in {one["Name"] for one in usual["Ulimits"]}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("Tmpfs", {}),
        ("Tmpfs", {"/tmp": "rw"}),
        ("Tmpfs", {"/tmp": "rw,size=1", "/etc": "rw"}),
        ("ReadonlyRootfs", False),
        ("Ulimits", []),
        ("Ulimits", [{"Name": "nofile", "Soft": 4096, "Hard": 4096}, {"Name": "core", "Soft": 0, "Hard": 0}]),
        ("Ulimits", [{"Name": "nofile", "Soft": 1, "Hard": 2}, {"Name": "core", "Soft": 0, "Hard": 0}]),
        ("ShmSize", 1 << 30),
        ("OomScoreAdj", 0),
        ("OomKillDisable", True),
        ("RestartPolicy", {"Name": "always", "MaximumRetryCount": 0}),
        ("LogConfig", {"Type": "json-file", "Config": {}}),
        ("Mounts", [{"Type": "bind", "Source": "/", "Target": "/w", "ReadOnly": False}]),
    ],
)
def test_an_engine_that_does_otherwise_is_noticed(field: str, value: Any) -> None:
    """Every option is read back, each by its own name."""
    body = strict_body()
    verify_created(body, engine_says(body))
    said = engine_says(body)
    said["HostConfig"][field] = value
    with pytest.raises(SandboxMismatchError) as caught:
        verify_created(body, said)
    assert caught.value.field == field


def test_spellings_of_nothing_are_no_mismatch() -> None:
    """An engine writes null, an empty list or an empty map, and sorts as it likes."""
    body = strict_body()
    said = engine_says(body)
    said["HostConfig"]["Ulimits"].reverse()
    said["HostConfig"] |= {"OomKillDisable": None, "CapAdd": None, "Dns": None}
    verify_created(body, said)
    plain = create_body("x", LIMITS, runtime="runc", grader=False, labels={}, volumes={}, workdir=None)
    said = engine_says(plain)
    said["HostConfig"]["Tmpfs"] = None
    verify_created(plain, said)


def test_the_evidence_says_what_was_created() -> None:
    """Image, user, options, mounts and limits by the engine's own words, as plain data."""
    facts = created_facts(engine_says(strict_body()))
    assert facts["image"] == "sha256:" + "a" * 64 and facts["user"] == "65533:65533"
    assert facts["options"]["ReadonlyRootfs"] is True and facts["options"]["Memory"] == 128 << 20
    assert facts["mounts"] == [
        ["volume", "bundle", "/opt/agent", "ro"],
        ["volume", "ws", "/w", "rw"],
    ]
    assert facts["ulimits"] == {"nofile": 4096, "core": 0, "fsize": 10 << 30}
    assert created_facts({})["image"] is None
