"""The filter of system calls that every sandbox gets, in the engine's form, from `syscalls.toml`.

The engine's own filter is as old as the engine: the one of 20.10 lets io_uring through. Ours is a list of
what may be called; what is refused has its reason beside it, and what nobody listed is refused as well.
"""

from __future__ import annotations

import errno
import hashlib
import json
import platform
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

_FILE: Final = "syscalls.toml"
_ALLOW: Final = "SCMP_ACT_ALLOW"
_REFUSE: Final = "SCMP_ACT_ERRNO"
_COMPARE: Final = {
    "LT": "SCMP_CMP_LT",
    "GT": "SCMP_CMP_GT",
    "EQ": "SCMP_CMP_EQ",
    "MASKED": "SCMP_CMP_MASKED_EQ",
}
_MACHINES: Final = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
"""Only the machine's own calls: a program of another word size would come in by another table."""

_PREFIX: Final = "seccomp="


@cache
def table() -> Mapping[str, Any]:
    """The file as it is: `refused`, `some`, `sized`, `allowed`."""
    return tomllib.loads(resources.files(__package__).joinpath(_FILE).read_text("utf-8"))


def _refuse(calls: Sequence[str], error: str) -> dict[str, Any]:
    return {"names": list(calls), "action": _REFUSE, "errnoRet": getattr(errno, error)}


def _some(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One rule for each value: they are alternatives."""
    compare = {"index": entry["index"], "op": _COMPARE[entry["when"]]}
    found = []
    for value in entry["values"]:
        masked = {"value": entry["mask"], "valueTwo": value} if "mask" in entry else {"value": value}
        rule = {"names": [entry["call"]], "action": _ALLOW, "args": [{**compare, **masked}]}
        found.append(rule)
    return found


@cache
def profile(sized: bool) -> str:
    """The filter as JSON text; `sized` says that the kernel bounds what can be written.

    On a machine whose calls the file does not know, the engine's own list of machines is used.
    """
    found = table()
    rules = [{"names": found["allowed"]["calls"], "action": _ALLOW}]
    rules += [rule for entry in found["some"] for rule in _some(entry)]
    rules += [_refuse(group["calls"], group["error"]) for group in found["refused"]]
    calls = found["sized"]["calls"]
    rules.append({"names": calls, "action": _ALLOW} if sized else _refuse(calls, found["sized"]["error"]))
    machine = _MACHINES.get(platform.machine())
    whole: dict[str, Any] = {
        "defaultAction": _REFUSE,
        "architectures": [machine] if machine else None,
        "syscalls": rules,
    }
    return json.dumps(
        {key: value for key, value in whole.items() if value is not None}, separators=(",", ":")
    )


def option(*, sized: bool) -> str:
    """The security option of the engine; it takes the text itself, and no path."""
    return f"{_PREFIX}{profile(sized)}"


def shown(options: Sequence[str]) -> list[str]:
    """Security options for the evidence: a filter by its SHA-256 and not by its eight thousand bytes."""
    return [
        f"{_PREFIX}sha256:{hashlib.sha256(one.removeprefix(_PREFIX).encode()).hexdigest()}"
        if one.startswith(_PREFIX)
        else one
        for one in options
    ]
