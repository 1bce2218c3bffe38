"""How a known agent is started, as data: templates of its command, variables and files, and what it needs.

`workers.adapters.packed` makes a launch of it. Nothing here, and nothing there, says how a try ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from orchestrator.agents.environment import holds_secret, profile_env_problem
from orchestrator.agents.templates import placeholders
from orchestrator.providers import FamilyName

MODELS: Final = frozenset({"model", "model_small"})
PLACES: Final = frozenset({"url", "bundle", "home"})
IN_FILES: Final = MODELS | PLACES | {"output_tokens", "mcp_servers"}
"""What a file below HOME may use: values without quotes and line breaks, and never the token. The exception
is `mcp_servers`, which has the form that the profile names."""
IN_COMMAND: Final = IN_FILES | {"workspace", "out", "instruction", "instruction_file", "mcp_config"}
IN_ENVIRONMENT: Final = IN_FILES | {"workspace", "out", "token", "mcp_config"}
MAX_FILE: Final = 16_384
_FILE_NAME: Final = re.compile(r"(?!/)(?!.*(?:^|/)\.\.?(?:/|$))[A-Za-z0-9._/-]{1,200}(?<!/)")
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,127}")
_PROGRAM: Final = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_Checked = TypeVar("_Checked")
LOADER: Final = r"^/[A-Za-z0-9._/-]{1,100}$"
GLIBC: Final = r"^2\.[0-9]{1,3}$"
ClaimsForm = Literal["claude-stream", "codex-events", "gemini-stats", "mini-trajectory"]
"""Forms in which agents speak of their own run (`workers.adapters.claims`)."""
McpForm = Literal["servers-json", "gemini-json", "opencode-json", "codex-toml", "vibe-toml"]
"""Forms in which agents are told of MCP servers (`workers.adapters.mcp`)."""
Transport = Literal["stdio", "sse", "http"]
Permission = Literal["allow", "reject"]
"""What an agent that asks for permission is told: the first option that allows, or that rejects."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Limits(_Model):
    """What the agent asks for at once.

    `output_tokens` is the maximum it sends with each model call if nobody sets one, None if it sends none.
    `first_request_bytes` is the measured size of its first call, rounded up: it decides the least money
    with which the agent can begin. `home_mb` is what it writes into HOME, in MiB.
    """

    output_tokens: Annotated[int, Field(ge=1, le=10**6)] | None = None
    first_request_bytes: Annotated[int, Field(ge=1, le=32 << 20)]
    home_mb: Annotated[int, Field(ge=1, le=65_536)] = 16


class Libc(_Model):
    """What the agent's programs need of an image: their loader, and the least glibc (`2.28`)."""

    loader: Annotated[str, Field(pattern=LOADER)]
    glibc: Annotated[str, Field(pattern=GLIBC)]


class Rehearsal(_Model):
    """The agent's self-test: a bundled script of the scripted provider, and the model calls it takes."""

    script: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$")] = "hello"
    steps: Annotated[int, Field(ge=1, le=100)] = 2


class McpTerms(_Model):
    """What an agent can do with a task's MCP servers, and in which words of its own configuration.

    `form` is that of `{{mcp_servers}}`, None where the file of the run contract is enough.
    """

    transports: Annotated[tuple[Transport, ...], Field(min_length=1)]
    form: McpForm | None = None


class AcpTerms(_Model):
    """How an agent is driven by the agent client protocol (reference/agents.md section 6)."""

    permission: Permission = "allow"


class AcpLaunch(AcpTerms):
    """The other way to start an agent: `argv` is the template of a command that speaks the protocol."""

    argv: Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]


class LaunchTemplate(_Model):
    """One way to start one agent.

    - `argv`, `env`, `files` (path below HOME -> content) are templates, see `IN_COMMAND` and its like.
    - `stdin`: the instruction, or nothing at all.
    - `wires`: the formats in which it can call models, each with further placeholders for that format.
    - `roles`: the models it calls; `small` is the main model where a screening names no other.
    - `mcp`: how it is told of a task's MCP servers; None if it can use none.
    - `acp`: how it is started to be talked to by the agent client protocol; None if it cannot be.
    - `needs`: programs of the task's image, `libc`: its C library (found when the agent is packed); without
      them the agent cannot be started there. `transcripts`: what it writes about itself, globs below HOME or
      the output folder (untrusted exhibits); `claims`: the form of its own figures among them, or in what
      it prints.
    """

    argv: Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]
    stdin: Literal["instruction", "nothing"]
    env: dict[str, str] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)
    wires: Annotated[dict[FamilyName, dict[str, str]], Field(min_length=1)]
    roles: Annotated[tuple[Literal["main", "small"], ...], Field(min_length=1)] = ("main",)
    limits: Limits
    mcp: McpTerms | None = None
    acp: AcpLaunch | None = None
    self_test: Rehearsal = Rehearsal()
    needs: tuple[Annotated[str, Field(pattern=_PROGRAM)], ...] = ()
    libc: Libc | None = None
    transcripts: tuple[str, ...] = ()
    claims: ClaimsForm | None = None

    def spoken(self) -> LaunchTemplate:
        """The template of the other way, as one of its own; itself where there is none."""
        if self.acp is None:
            return self
        return self.model_copy(update={"argv": self.acp.argv, "stdin": "nothing", "acp": None})

    @property
    def sets_output_limit(self) -> bool:
        """Whether the agent takes its output maximum from outside."""
        return "output_tokens" in placeholders([*self.argv, *self.env.values(), *self.files.values()])

    @field_validator("env")
    @classmethod
    def _variables(cls, env: dict[str, str]) -> dict[str, str]:
        return _refuse(env, [profile_env_problem(name, value) for name, value in sorted(env.items())])

    @field_validator("files")
    @classmethod
    def _files(cls, files: dict[str, str]) -> dict[str, str]:
        return _refuse(files, [_file_problem(name, text) for name, text in sorted(files.items())])

    @field_validator("wires")
    @classmethod
    def _wires(cls, wires: dict[FamilyName, dict[str, str]]) -> dict[FamilyName, dict[str, str]]:
        names = {name for extra in wires.values() for name in extra}
        problems: list[str | None] = [
            f"{name!r} is no free name for a placeholder"
            for name in sorted(names)
            if not _NAME.fullmatch(name) or name in IN_COMMAND | IN_ENVIRONMENT
        ]
        for wire, extra in wires.items():
            missing = sorted(names - set(extra))
            problems += [f"{wire} gives no {missing[0]}, another format does"] if missing else []
            problems += [
                f"{wire}.{name} is no plain word" for name, text in extra.items() if not _WORD.fullmatch(text)
            ]
        return _refuse(wires, problems)

    @model_validator(mode="after")
    def _known_placeholders(self) -> Self:
        extra = frozenset(name for values in self.wires.values() for name in values)
        spoken = () if self.acp is None else self.acp.argv
        for what, texts, allowed in (
            ("argv", self.argv, IN_COMMAND),
            ("acp.argv", spoken, IN_COMMAND - {"instruction"}),
            ("env", self.env.values(), IN_ENVIRONMENT),
            ("files", self.files.values(), IN_FILES),
        ):
            if unknown := sorted(placeholders(texts) - allowed - extra):
                raise ValueError(f"{what} uses {{{{{unknown[0]}}}}}, which it may not or nobody knows")
        if any(not part or "\x00" in part or holds_secret(part) for part in (*self.argv, *spoken)):
            raise ValueError("argv has an empty argument, a NUL, or something that looks like a secret")
        everything = [*self.argv, *spoken, *self.env.values(), *self.files.values()]
        if ("mcp_servers" in placeholders(everything)) != (
            self.mcp is not None and self.mcp.form is not None
        ):
            raise ValueError("{{mcp_servers}} and mcp.form go together")
        if self.sets_output_limit and self.limits.output_tokens is None:
            raise ValueError("limits.output_tokens is missing, and {{output_tokens}} is used")
        return self


def _file_problem(name: str, text: str) -> str | None:
    if not _FILE_NAME.fullmatch(name):
        return f"{name!r} is no path below HOME"
    if len(text) > MAX_FILE or "\x00" in text or holds_secret(text):
        return f"{name} is longer than {MAX_FILE} characters, holds a NUL or looks like a secret"
    return None


def _refuse(value: _Checked, problems: Iterable[str | None]) -> _Checked:
    found = [problem for problem in problems if problem]
    if found:
        raise ValueError("; ".join(found))
    return value
