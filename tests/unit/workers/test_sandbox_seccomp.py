"""The filter of system calls: every call in one list, every refusal with its reason, in the engine's form."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from workers.sandbox import seccomp

GUIDE = Path(__file__).parents[3] / "docs" / "hardening.md"
DANGEROUS = [
    "io_uring_setup",
    "ptrace",
    "process_vm_writev",
    "userfaultfd",
    "bpf",
    "perf_event_open",
    "add_key",
    "keyctl",
    "request_key",
    "mount",
    "fsopen",
    "move_mount",
    "unshare",
    "setns",
    "open_by_handle_at",
    "pidfd_getfd",
    "kcmp",
    "init_module",
    "kexec_load",
    "reboot",
    "swapon",
    "clock_settime",
    "iopl",
    "clone3",
    "memfd_secret",
    "fanotify_init",
    "chroot",
    "pivot_root",
    "quotactl",
    "acct",
    "syslog",
]
USUAL = [
    "read",
    "write",
    "openat",
    "execve",
    "fork",
    "vfork",
    "mmap",
    "futex",
    "epoll_wait",
    "socket",
    "connect",
    "statx",
    "getrandom",
    "rseq",
]


def rules(sized: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(seccomp.profile(sized))["syscalls"]
    return found


def action(call: str, sized: bool = False) -> list[tuple[str, Any]]:
    return [(rule["action"], rule.get("errnoRet")) for rule in rules(sized) if call in rule["names"]]


def test_every_call_stands_in_one_list() -> None:
    """Two actions for one call would leave the choice to the library."""
    table = seccomp.table()
    lists = [group["calls"] for group in table["refused"]]
    lists += [
        table["allowed"]["calls"],
        table["sized"]["calls"],
        list({one["call"] for one in table["some"]}),
    ]
    calls = [call for one in lists for call in one]
    assert len(calls) == len(set(calls)) and len(calls) > 350
    assert table["allowed"]["calls"] == sorted(table["allowed"]["calls"])


@pytest.mark.parametrize("call", DANGEROUS)
def test_what_must_never_be_called(call: str) -> None:
    """sandbox.md 1.1: what the engine's filter of 20.10 lets through, and what it refuses."""
    for sized in (False, True):
        ((what, number),) = action(call, sized)
        assert what == "SCMP_ACT_ERRNO" and number in (errno.EPERM, errno.ENOSYS)


def test_what_every_program_calls() -> None:
    """And nothing is decided for a call that nobody listed."""
    for call in USUAL:
        assert {what for what, _ in action(call)} == {"SCMP_ACT_ALLOW"}, call
    assert json.loads(seccomp.profile(True))["defaultAction"] == "SCMP_ACT_ERRNO"
    assert action("a_call_of_next_year") == []


def test_all_of_a_disk_in_one_call_only_where_the_kernel_bounds_it() -> None:
    """The bound of a writable disk rests on it: a `fallocate` is quicker than anybody looks."""
    assert action("fallocate", sized=True) == [("SCMP_ACT_ALLOW", None)]
    assert action("fallocate", sized=False) == [("SCMP_ACT_ERRNO", errno.EOPNOTSUPP)]


def test_arguments_are_alternatives() -> None:
    """One comparison a rule: several for one argument in one rule would have to hold at once."""
    found = [rule for rule in rules(False) if "args" in rule]
    assert all(len(rule["args"]) == 1 and rule["action"] == "SCMP_ACT_ALLOW" for rule in found)
    assert {rule["names"][0] for rule in found} == {"clone", "personality", "socket"}
    (clone,) = (rule["args"][0] for rule in found if rule["names"] == ["clone"])
    assert clone == {"index": 0, "op": "SCMP_CMP_MASKED_EQ", "value": 0x7E020000, "valueTwo": 0}


@pytest.mark.parametrize(("machine", "shown"), [("x86_64", True), ("aarch64", True), ("riscv64", False)])
def test_only_the_machines_own_calls(monkeypatch: pytest.MonkeyPatch, machine: str, shown: bool) -> None:
    """A program of another word size would come in by another table."""
    monkeypatch.setattr("platform.machine", lambda: machine)
    found = json.loads(seccomp.profile.__wrapped__(False))
    assert len(found.get("architectures", [])) == int(shown)


def test_the_evidence_names_it_by_its_digest() -> None:
    """Eight thousand bytes of it in every sandbox report would say no more."""
    told = seccomp.shown(["no-new-privileges:true", seccomp.option(sized=True)])
    assert told[0] == "no-new-privileges:true"
    assert told[1].startswith("seccomp=sha256:") and len(told[1]) == len("seccomp=sha256:") + 64
    assert told[1] != seccomp.shown([seccomp.option(sized=False)])[0]


def test_the_guide_shows_every_refusal() -> None:
    """docs/hardening.md has the table as it is."""
    text = GUIDE.read_text("utf-8")
    for group in seccomp.table()["refused"]:
        calls = ", ".join(f"`{call}`" for call in group["calls"])
        assert f"| {calls} | {group['error']} | {group['why']} |" in text
    for one in seccomp.table()["some"]:
        assert f"| `{one['call']}` | {one['why']} |" in text
