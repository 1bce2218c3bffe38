"""The script of a rehearsal: strict TOML that lists what the provider says, turn by turn.

`[[turn]]` at the top level is the default conversation; `[[conversation]]` sections serve chosen tasks.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from orchestrator.agents.errors import listed
from orchestrator.packs.validation import sentences
from workers.rehearsal.errors import ScriptError

FORMAT: Final = "assize.rehearsal/1"
BUNDLED: Final = Path(__file__).parent / "scripts"
MAX_TURNS: Final = 1000
MAX_TEXT: Final = 100_000
MAX_DELAY_MS: Final = 600_000
MAX_COUNT: Final = 1_000_000_000

_Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
_Tokens = Annotated[int, Field(ge=0, le=MAX_COUNT)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Usage(_Model):
    """Tokens of one reply; `cached` is a part of `input`, `reasoning` a part of `output`."""

    input: _Tokens
    cached: _Tokens = 0
    output: _Tokens
    reasoning: _Tokens = 0

    @model_validator(mode="after")
    def _parts(self) -> Self:
        if self.cached > self.input:
            raise ValueError(f"cached ({self.cached}) is a part of input ({self.input}) and cannot exceed it")
        if self.reasoning > self.output:
            raise ValueError(
                f"reasoning ({self.reasoning}) is a part of output ({self.output}) and cannot exceed it"
            )
        return self


class Fault(_Model):
    """One kind of provider trouble: an error status, a cut reply, a delay, or an error inside a 200.

    `retry_after_s` goes with `status`. After `delay_ms` the turn itself is played.
    """

    status: Annotated[int, Field(ge=400, le=599)] | None = None
    retry_after_s: Annotated[int, Field(ge=0, le=86_400)] | None = None
    cut_after_events: Annotated[int, Field(ge=0, le=MAX_COUNT)] | None = None
    delay_ms: Annotated[int, Field(ge=1, le=MAX_DELAY_MS)] | None = None
    error_in_stream: Literal[True] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = (self.status, self.cut_after_events, self.delay_ms, self.error_in_stream)
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("a fault is exactly one of status, cut_after_events, delay_ms, error_in_stream")
        if self.retry_after_s is not None and self.status is None:
            raise ValueError("retry_after_s goes with status")
        return self


class Call(_Model):
    """A call of a tool of the agent's: `tool` is its name, or the last part of it (`add`)."""

    tool: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]
    arguments: dict[str, Any] = Field(default_factory=dict)


class Turn(_Model):
    """One reply: a text, a shell command or another call, or both; a fault is served `times` times before."""

    say: _Text | None = None
    run: _Text | None = None
    call: Call | None = None
    finish: Literal["stop", "length"] = "stop"
    fault: Fault | None = None
    times: Annotated[int, Field(ge=1, le=MAX_COUNT)] | None = None
    usage: Usage | None = None

    @model_validator(mode="after")
    def _something_to_play(self) -> Self:
        if self.run is not None and self.call is not None:
            raise ValueError("a turn runs a command or calls a tool, not both")
        if self.say is None and self.run is None and self.call is None:
            raise ValueError("a turn says something, runs something, or both")
        if (self.run or self.call) is not None and self.finish == "length":
            raise ValueError('finish = "length" goes with a turn that only says something')
        if self.times is not None and self.fault is None:
            raise ValueError("times counts a fault, and this turn has none")
        return self


def _filled(items: tuple[Any, ...]) -> tuple[Any, ...]:
    # Not `min_length`: the library would also call a list empty whose items are wrong.
    if not items:
        raise ValueError("at least one is needed")
    return items


_Turns = Annotated[tuple[Turn, ...], Field(max_length=MAX_TURNS), AfterValidator(_filled)]


class Conversation(_Model):
    """The turns played when the opening user messages hold the text `when`."""

    when: _Text
    turn: _Turns


class Script(_Model):
    """One script. `turn` is the default conversation; without it, unmatched tasks are refused."""

    format: Literal["assize.rehearsal/1"]
    models: Annotated[tuple[_Text, ...], Field(max_length=100), AfterValidator(_filled)] = ("rehearsal",)
    turn: _Turns | None = None
    conversation: tuple[Conversation, ...] = ()

    @model_validator(mode="after")
    def _something_to_say(self) -> Self:
        if self.turn is None and not self.conversation:
            raise ValueError("a script needs at least one [[turn]] or [[conversation]]")
        return self

    def turns_for(self, task: str) -> tuple[Turn, ...] | None:
        """The turns for an opening `task`: the first conversation that matches, else the default."""
        return next((found.turn for found in self.conversation if found.when in task), self.turn)


def parse_script(text: str, subject: str) -> Script:
    """Read a script's TOML; `ScriptError` names `subject`, the key and its value."""
    try:
        raw: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScriptError(f"{subject}: not valid TOML: {error}") from None
    try:
        return Script.model_validate_json(json.dumps(raw, default=str))
    except ValidationError as error:
        raise ScriptError(listed(subject, sentences(error))) from None


def load_script(path: Path) -> Script:
    """Read the script file `path`; errors as `parse_script`."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"script {path.name}: {path} cannot be read as text ({error})") from None
    return parse_script(text, f"script {path.name}")


def find_script(value: str) -> Path:
    """The bundled script of the name `value` (`hello`), else `value` as a path; nothing is read."""
    bundled = BUNDLED / f"{value}.toml"
    return bundled if value.replace("-", "").isalnum() and bundled.is_file() else Path(value)


def checked_script(value: str) -> Path:
    """Entry point `assize.rehearsal`: the file of a bundled name or path, read once; `ScriptError` if bad."""
    path = find_script(value)
    load_script(path)
    return path
