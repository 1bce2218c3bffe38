"""task.toml of a Harbor task, schema 1.0-1.4 and the legacy keys (reference/harbor.md section 1).

`parse_task_config` is the only way in. Unknown keys are ignored, as Harbor ignores them, but listed.
"""

from __future__ import annotations

import tomllib
import types
import typing
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from orchestrator.packs.errors import PackError, join_problems
from orchestrator.packs.task_environment import Environment, Healthcheck, PhaseNetwork, Seconds, Section, User
from orchestrator.packs.validation import sentences

SCHEMA_VERSIONS: Final = ("1.0", "1.1", "1.2", "1.3", "1.4")
MAIN_SERVICE: Final = "main"
_SERVICE_PATTERN: Final = r"^\s*[a-zA-Z0-9][a-zA-Z0-9_.-]*\s*$"
_PACKAGE_PATTERN: Final = r"^[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*$"
_SECRET_PLACES: Final = frozenset({"env", "headers"})
_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{digit}" for port in ("com", "lpt") for digit in "123456789¹²³"}
)


class Author(Section):
    """Who wrote the task."""

    name: str
    email: str | None = None


class Package(Section):
    """`[task]`: the task's public name."""

    name: Annotated[str, Field(pattern=_PACKAGE_PATTERN)]
    version: Annotated[str, Field(min_length=1)] | None = None
    description: str = ""
    authors: tuple[Author, ...] = ()
    keywords: tuple[str, ...] = ()

    @field_validator("name")
    @classmethod
    def _no_parent(cls, value: str) -> str:
        if ".." in value:
            raise ValueError("the name holds '..'")
        return value


class ArtifactEntry(Section):
    """One declared artifact; a plain string stands for its `source`."""

    source: Annotated[str, Field(min_length=1)]
    destination: str | None = None
    exclude: tuple[str, ...] = ()
    service: Annotated[str, Field(pattern=_SERVICE_PATTERN)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_string(cls, data: Any) -> Any:
        return {"source": data} if isinstance(data, str) else data

    @field_validator("source")
    @classmethod
    def _source(cls, value: str) -> str:
        if ".." in PurePosixPath(value).parts:
            raise ValueError("the source holds '..'")
        return value

    @field_validator("destination")
    @classmethod
    def _destination(cls, value: str | None) -> str | None:
        if not value:
            return None
        path = PurePosixPath(value)
        if "\\" in value or path.is_absolute() or ".." in path.parts or not path.parts:
            raise ValueError("the destination must be a relative path without '..' or backslash")
        if path == PurePosixPath("manifest.json"):
            raise ValueError("the destination manifest.json is reserved")
        return value

    @model_validator(mode="after")
    def _sidecar_is_absolute(self) -> Self:
        if self.of_other_service and not self.source.startswith("/"):
            raise ValueError(f"the source of service {self.service!r} must be an absolute path")
        return self

    @property
    def of_other_service(self) -> bool:
        """Whether it is collected from a compose service other than the agent's container."""
        return self.service is not None and self.service.strip() != MAIN_SERVICE


class CollectHook(Section):
    """`[[verifier.collect]]`: a command run between the agent phase and the collection."""

    command: str
    service: Annotated[str, Field(pattern=_SERVICE_PATTERN)] = MAIN_SERVICE
    timeout_sec: Seconds = 60.0
    user: User | None = None


class Agent(PhaseNetwork):
    """`[agent]`; no `timeout_sec` means unlimited in Harbor."""

    timeout_sec: Seconds | None = None
    user: User | None = None


class Verifier(PhaseNetwork):
    """`[verifier]`; an `environment` implies the separate mode."""

    timeout_sec: Seconds = 600.0
    env: dict[str, str] = Field(default_factory=dict)
    user: User | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: Environment | None = None
    collect: tuple[CollectHook, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError("environment_mode = 'shared' contradicts [verifier.environment]")
        return self


class Solution(Section):
    """`[solution]`: environment of the reference solution."""

    env: dict[str, str] = Field(default_factory=dict)


def step_name_key(name: str) -> str:
    """Two step names with one key would be one folder on a file system without case."""
    return unicodedata.normalize("NFC", name).casefold()


class Step(Section):
    """One step of a multi-step task."""

    name: str
    agent: Agent = Field(default_factory=Agent)
    verifier: Verifier = Field(default_factory=Verifier)
    min_reward: float | dict[str, float] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: tuple[ArtifactEntry, ...] = ()

    @field_validator("name")
    @classmethod
    def _portable(cls, value: str) -> str:
        bad = any(char in '<>:"/\\|?*' or unicodedata.category(char) == "Cc" for char in value)
        device = value.partition(".")[0].rstrip(" ").casefold() in _DEVICES
        if bad or device or not value.strip() or value.endswith((".", " ")) or len(value.encode()) > 255:
            raise ValueError("a step name must be a portable folder name")
        return value


class TaskConfig(Section):
    """A whole task.toml."""

    legacy_keys: ClassVar[frozenset[str]] = frozenset({"version"})

    schema_version: str = "1.4"
    source: str | None = None
    artifacts: tuple[ArtifactEntry, ...] = ()
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    task: Package | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    agent: Agent = Field(default_factory=Agent)
    verifier: Verifier = Field(default_factory=Verifier)
    environment: Environment = Field(default_factory=Environment)
    solution: Solution = Field(default_factory=Solution)
    steps: tuple[Step, ...] | None = None
    unknown_keys: tuple[str, ...] = ()

    @field_validator("schema_version")
    @classmethod
    def _known_schema(cls, value: str) -> str:
        if value not in SCHEMA_VERSIONS:
            raise ValueError(f"this loader reads {SCHEMA_VERSIONS[0]} to {SCHEMA_VERSIONS[-1]}")
        return value

    @field_validator("steps")
    @classmethod
    def _unique_steps(cls, steps: tuple[Step, ...] | None) -> tuple[Step, ...] | None:
        keys = [step_name_key(step.name) for step in steps or ()]
        if len(set(keys)) != len(keys):
            raise ValueError("two steps have the same name (ignoring case and Unicode form)")
        return steps


def _models_in(annotation: Any) -> Iterator[type[Section]]:
    """Every section model mentioned by a field's annotation."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    elif typing.get_origin(annotation) in (tuple, Annotated, typing.Union, types.UnionType):
        for part in typing.get_args(annotation):
            yield from _models_in(part)


def _unknown_keys(raw: Mapping[str, Any], model: type[Section], at: str = "") -> Iterator[str]:
    for key, value in raw.items():
        where = f"{at}{key}"
        field = model.model_fields.get(key)
        if field is None or where == "unknown_keys":
            if key not in model.legacy_keys:
                yield where
            continue
        inner = next(_models_in(field.annotation), None)
        if inner is None:
            continue
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(item, dict):
                suffix = f"[{index}]." if isinstance(value, list) else "."
                yield from _unknown_keys(item, inner, where + suffix)


def parse_task_config(text: str, task: str) -> TaskConfig:
    """Read task.toml; `PackError` names `task`, each bad key and its value (but never a value of `env`)."""
    subject = f"task {task}: task.toml"
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PackError(f"{subject}: not valid TOML: {error}") from None
    unknown = tuple(sorted(_unknown_keys(raw, TaskConfig)))
    raw.pop("unknown_keys", None)
    version = raw.pop("version", None)
    if version is not None:
        raw.setdefault("schema_version", version)
    try:
        config = TaskConfig.model_validate(raw)
    except ValidationError as error:
        raise join_problems(subject, sentences(error, _SECRET_PLACES)) from None
    return config.model_copy(update={"unknown_keys": unknown})
