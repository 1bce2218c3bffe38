"""Reads a file of hostile agents: version 1, strict. What is not understood is a problem of its case.

A case is one attack: who runs it (`lang`, `code`), what it needs, and how it may end. An unknown key, need,
outcome or invariant makes the case fail with `problem`; nothing is passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from scoring.vocabulary import Reason

WORDS: Final[Mapping[str, frozenset[Reason]]] = {
    "agent_fail": frozenset({Reason.WRONG_OUTPUT, Reason.NO_VERDICT, Reason.TAMPERING}),
    "timeout": frozenset({Reason.TIMEOUT, Reason.DEADLINE_OVERRUN}),
    "cost_cap": frozenset({Reason.COST_CAP}),
    "network_violation": frozenset({Reason.NETWORK_VIOLATION}),
    "tool_error": frozenset({Reason.TOOL_ERROR}),
    "crash": frozenset({Reason.CRASH}),
    "resource_limit": frozenset(
        {Reason.OUT_OF_MEMORY, Reason.DISK_LIMIT, Reason.PID_LIMIT, Reason.OUTPUT_LIMIT}
    ),
    "policy_flag": frozenset({Reason.TAMPERING}),
}
"""The file's outcomes in our reasons. `policy_flag` alone is never an end, so it is no expected outcome."""

INVARIANTS: Final = tuple(f"L{number}" for number in range(1, 10))
GROUPS: Final = ("resource", "lifecycle", "artifact", "network", "cost", "grading")
HELPERS: Final = ("call", "open_stream")
_FILE_KEYS: Final = {"version", "about", "outcomes", "rule_of_verdict", "invariants", "agents"}
_REQUIRED: Final = {
    "id",
    "group",
    "does",
    "lang",
    "code",
    "expected",
    "also_acceptable",
    "must_hold",
    "contained_by",
}
_OPTIONAL: Final = {"needs", "notes"}
_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")
_HELPER: Final = re.compile(r"helper (\w+)\(\)(?: supplied by the suite)?")
_OWN_PATHS: Final = ("/workspace", "/logs", "/tests", "/assize", "/tmp")


class CaseFileError(ValueError):
    """The file as a whole cannot be read as version 1."""


@dataclass(frozen=True)
class Needs:
    """What a case asks for: disk `profile`, a `runtime` of its own, `relay`, helper functions, a judge.

    Under a runtime with a kernel of its own a `crowd` of writers may pass a polled limit by more than one
    writer does (docs/hardening.md).
    """

    profile: Literal["strict", "writable"] = "strict"
    runtime: str | None = None
    relay: bool = False
    helpers: tuple[str, ...] = ()
    judge: bool = False
    crowd: bool = False


@dataclass(frozen=True)
class Case:
    """One hostile agent; `problem` says why it cannot be run as it is written."""

    id: str
    group: str = ""
    lang: str = ""
    code: str = ""
    expected: str = ""
    acceptable: frozenset[str] = frozenset()
    must_hold: tuple[str, ...] = ()
    needs: Needs = Needs()
    problem: str | None = None

    @property
    def reasons(self) -> frozenset[Reason]:
        """Every reason with which it may end."""
        return frozenset().union(*(WORDS[word] for word in (self.expected, *self.acceptable)))

    @property
    def is_solution(self) -> bool:
        """Whether the code is the deliverable itself, and not what writes one.

        The file does not say it in a key. In the group `grading`, Python that names no place of the sandbox
        has nothing to act on but whoever imports it.
        """
        names_a_place = any(path in self.code for path in _OWN_PATHS)
        return self.group == "grading" and self.lang == "python" and not names_a_place


class _Unknown(ValueError):
    """Something in a case that this runner does not know."""


def _needs(text: str) -> Needs:
    """`profile=strict|writable`, `runtime=NAME`, `relay`, `helper NAME()`, `pack with LLM judge`, `crowd`."""
    found: dict[str, Any] = {}
    helpers: list[str] = []
    for part in (one.strip() for one in text.split(";")):
        key, _, value = part.partition("=")
        helper = _HELPER.fullmatch(part)
        if helper and helper[1] in HELPERS:
            helpers.append(helper[1])
        elif part in ("relay", "crowd", "pack with LLM judge"):
            found["judge" if "judge" in part else part] = True
        elif (key == "profile" and value in ("strict", "writable")) or (key == "runtime" and value):
            found[key] = value
        else:
            raise _Unknown(f"unknown need {part!r}")
    if helpers and not found.get("relay"):
        raise _Unknown("a helper needs the relay")
    return Needs(**found, helpers=tuple(helpers))


def _words(found: Any, known: Any, what: str) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise _Unknown(f"{what} is no list of words")
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise _Unknown(f"unknown {what} {', '.join(unknown)}")
    return tuple(found)


def _text(data: Mapping[str, Any], key: str, known: Any = None) -> str:
    value = data[key]
    if not isinstance(value, str) or not value:
        raise _Unknown(f"{key} is no text")
    if known is not None and value not in known:
        raise _Unknown(f"unknown {key} {value!r}")
    return value


def _case(data: Mapping[str, Any], defined: Mapping[str, Any], invariants: Mapping[str, Any]) -> Case:
    keys = set(data)
    if keys - _REQUIRED - _OPTIONAL:
        raise _Unknown(f"unknown key {', '.join(sorted(keys - _REQUIRED - _OPTIONAL))}")
    if _REQUIRED - keys:
        raise _Unknown(f"without {', '.join(sorted(_REQUIRED - keys))}")
    outcomes = [word for word in WORDS if word in defined]
    lines = _words(data["code"], data["code"], "code")
    if not lines:
        raise _Unknown("code is empty")
    for key in ("does", "contained_by", *({"notes"} & keys)):
        _text(data, key)
    return Case(
        id=_text(data, "id"),
        group=_text(data, "group", GROUPS),
        lang=_text(data, "lang", ("python", "sh")),
        code="\n".join(lines) + "\n",
        expected=_text(data, "expected", [word for word in outcomes if word != "policy_flag"]),
        acceptable=frozenset(_words(data["also_acceptable"], outcomes, "outcome")),
        must_hold=_words(data["must_hold"], [one for one in INVARIANTS if one in invariants], "invariant"),
        needs=_needs(_text(data, "needs")) if "needs" in keys else Needs(),
    )


def read_cases(path: Path) -> list[Case]:
    """Every case of a file, in order; raises `CaseFileError` for a file that is none."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CaseFileError(f"{path.name}: {error}") from None
    if not isinstance(data, dict) or data.get("version") != 1 or set(data) - _FILE_KEYS:
        raise CaseFileError(f"{path.name}: no case file of version 1, or with unknown keys")
    agents, outcomes, rules = (data.get(key) for key in ("agents", "outcomes", "invariants"))
    if not isinstance(agents, list) or not agents:
        raise CaseFileError(f"{path.name}: no agents")
    if not isinstance(outcomes, dict) or not isinstance(rules, dict):
        raise CaseFileError(f"{path.name}: outcomes and invariants are not defined")
    cases: dict[str, Case] = {}
    for number, agent in enumerate(agents):
        name = agent.get("id") if isinstance(agent, dict) else None
        if not isinstance(name, str) or not _ID.fullmatch(name) or name in cases:
            raise CaseFileError(f"{path.name}: agent {number} has no id of its own")
        try:
            cases[name] = _case(agent, outcomes, rules)
        except _Unknown as error:
            cases[name] = Case(name, problem=str(error))
    return list(cases.values())
