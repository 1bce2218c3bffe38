"""An agent revision: what is screened, as strict TOML on the outside and one pinned model inside.

The bundle's digest is part of the revision, so that its own digest pins everything the agent brings.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from orchestrator import canonical
from orchestrator.agents.bundle import BundleManifest, read_bundle
from orchestrator.agents.endpoint import Endpoint
from orchestrator.agents.environment import MAX_VALUE, env_problem
from orchestrator.agents.errors import AgentError, BundleError, listed
from orchestrator.agents.launching import AcpTerms, LaunchTemplate
from orchestrator.packs.validation import sentences

FORMAT: Final = "assize.agent/1"
MOUNT: Final = "/opt/agent"
MAX_ARGUMENTS: Final = 64
NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9._-]*$"
VERSION_PATTERN: Final = r"^[0-9A-Za-z][0-9A-Za-z._+-]*$"
AnyModel = Literal["any"]
"""The agent works with whatever model a screening gives it; only with one can it be run."""
_LATER: Final = frozenset({"acp", "endpoint"})
_VERSION_UNFIT: Final = re.compile(r"[^0-9A-Za-z._-]")


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ModelRole(_Model):
    """One model the agent calls: its role in the agent, the provider's exact name, and the provider.

    `provider` may be left out where the price sheet knows the model from one provider only.
    """

    role: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/+-]*$", max_length=128)]
    provider: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)] | None = None


class Run(_Model):
    """How an `exec` agent runs: argv as executed in the task container, extra variables, root or not."""

    command: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_ARGUMENTS)]
    env: dict[str, str] = Field(default_factory=dict)
    wants_root: bool = False

    @field_validator("command")
    @classmethod
    def _arguments(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        if not command[0] or any("\x00" in part or len(part) > MAX_VALUE for part in command):
            raise ValueError(f"arguments have at most {MAX_VALUE} characters, no NUL, and a program first")
        return command

    @field_validator("env")
    @classmethod
    def _allowed(cls, env: dict[str, str]) -> dict[str, str]:
        problems = [found for name, value in sorted(env.items()) if (found := env_problem(name, value))]
        if problems:
            raise ValueError("; ".join(problems))
        return env


class AgentRevision(_Model):
    """One immutable revision; `digest` is its identity. `run` only with kind `exec`, `launch` with `packed`.

    An agent of kind `acp` has one of them, and `acp`: it is talked to over its standard streams. `endpoint`
    only with kind `http-chat`: it runs elsewhere, so that its tries are unverified.

    `any_model` says that it cannot run before a screening names its model (`with_model`).
    """

    format: Literal["assize.agent/1"] = FORMAT
    name: Annotated[str, Field(pattern=NAME_PATTERN, max_length=100)]
    version: Annotated[str, Field(pattern=VERSION_PATTERN, max_length=100)]
    kind: Literal["oracle", "nop", "exec", "shell", "packed", "acp", "http-chat"]
    description: Annotated[str, Field(max_length=2000)] = ""
    models: tuple[ModelRole, ...] = ()
    any_model: bool = False
    run: Run | None = None
    launch: LaunchTemplate | None = None
    bundle_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    acp: AcpTerms | None = None
    endpoint: Endpoint | None = None

    @property
    def label(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, 64 hex digits; it covers the bundle's digest."""
        return canonical.digest(self.as_data())

    def as_data(self) -> dict[str, Any]:
        """Plain data as it is hashed and stored; of a launch only what differs from the defaults.

        What came later is left out where an agent has none of it.

        So a revision keeps its digest when a later version knows more about how agents are started.
        """
        data = self.model_dump(mode="json", exclude={"launch"})
        data = {name: value for name, value in data.items() if value is not None or name not in _LATER}
        if self.launch is not None:
            data["launch"] = self.launch.model_dump(mode="json", exclude_defaults=True)
        return data

    @property
    def has_small(self) -> bool:
        """Whether it can be given a second model; of an agent's own command that is its own business."""
        return self.run is not None if self.launch is None else "small" in self.launch.roles

    def with_model(self, model: ModelRole, small: ModelRole | None = None) -> AgentRevision:
        """The revision that this agent is with a model: another digest, and the model in its version.

        An agent with a role `small` uses the main model in it unless `small` names another. `AgentError`
        for an agent that declares its own models, or none, and for `small` where it has no such role.
        """
        if not self.any_model:
            declared = ", ".join(one.id for one in self.models) or "none"
            raise AgentError(f"agent {self.label} takes no model from outside; it declares: {declared}")
        if small is not None and not self.has_small:
            raise AgentError(f"agent {self.label} has no role small", hint="leave --small-model out")
        models = (model,) if small is None else (model, small)
        names = "".join(f"+{_VERSION_UNFIT.sub('-', one.id)}" for one in models)
        version = f"{self.version}{names}"[:100]
        return self.model_copy(update={"models": models, "any_model": False, "version": version})

    def canonical_bytes(self) -> bytes:
        """The bytes that are stored and hashed."""
        return canonical.encode(self.as_data())


class _AgentSection(_Model):
    name: str
    version: str
    kind: Literal["oracle", "nop", "exec", "shell", "acp", "http-chat"]
    description: str = ""


class _ModelSection(_Model):
    declared: Literal["none"] | AnyModel | tuple[ModelRole, ...] = "none"


class _RunSection(_Model):
    command: tuple[str, ...]
    bundle: Annotated[str, Field(min_length=1)] | None = None
    env: dict[str, str] = Field(default_factory=dict)
    wants_root: bool = False


class _File(_Model):
    agent: _AgentSection
    model: _ModelSection = Field(default_factory=_ModelSection)
    run: _RunSection | None = None
    acp: AcpTerms | None = None
    endpoint: Endpoint | None = None


@dataclass(frozen=True)
class ParsedRevision:
    """A revision with the folder its bundle was read from and that bundle's manifest."""

    revision: AgentRevision
    bundle_dir: Path | None
    bundle: BundleManifest | None


def _validated(data: Any, subject: str) -> _File:
    try:
        return _File.model_validate_json(json.dumps(data, default=str))
    except ValidationError as error:
        raise AgentError(listed(subject, sentences(error, {"env", "url"}))) from None


def _program(command: tuple[str, ...], bundle: BundleManifest | None, subject: str) -> tuple[str, ...]:
    """`command` with a program of the bundle made absolute.

    `AgentError` if the bundle does not hold it or it is not executable. An absolute path, or a bare name
    that the bundle does not hold, is a program of the task's image.
    """
    program, rest = command[0] if command else "", command[1:]
    inside = program.removeprefix(MOUNT + "/") if program.startswith(MOUNT + "/") else program
    if inside.startswith("/"):
        return command
    path = inside.removeprefix("./")
    entry = None if bundle is None else bundle.get(path)
    if entry is None:
        if "/" not in program:
            return command
        raise AgentError(f"{subject}: run.command: the bundle holds no {path}")
    if entry.type == "f" and not entry.executable:
        raise AgentError(f"{subject}: run.command: {path} is not executable", hint=f"chmod +x {path}")
    return (f"{MOUNT}/{path}", *rest)


def _read_bundle(section: _RunSection, base: Path, subject: str) -> tuple[Path | None, BundleManifest | None]:
    if section.bundle is None:
        return None, None
    folder = (base / section.bundle).resolve()
    try:
        return folder, read_bundle(folder)
    except BundleError as error:
        raise BundleError(f"{subject}: {error.message}") from None


def _require_fit(file: _File, subject: str) -> None:
    """`AgentError` for sections that do not belong to the agent's kind, or are missing."""
    kind, declared = file.agent.kind, file.model.declared
    runs = kind in ("exec", "acp")
    if (file.run is not None) != runs:
        need = "needs" if runs else "has no use for"
        raise AgentError(f"{subject}: an agent of kind {kind} {need} a [run] section")
    if file.acp is not None and kind != "acp":
        raise AgentError(f"{subject}: an agent of kind {kind} has no use for an [acp] section")
    if (file.endpoint is not None) != (kind == "http-chat"):
        need = "needs" if kind == "http-chat" else "has no use for"
        raise AgentError(f"{subject}: an agent of kind {kind} {need} an [endpoint] section")
    if declared != "none" and declared and kind in ("oracle", "nop", "http-chat"):
        raise AgentError(f"{subject}: an agent of kind {kind} calls no model")
    if kind == "shell" and (declared == "none" or not declared):
        raise AgentError(f'{subject}: an agent of kind shell needs a model: declared = "any", or its name')
    if not isinstance(declared, str) and len({model.role for model in declared}) != len(declared):
        raise AgentError(f"{subject}: model.declared names a role twice")


def parse_revision(text: str, base: Path, subject: str) -> ParsedRevision:
    """Read a revision's TOML; `run.bundle` is relative to `base`.

    Raises `AgentError` (or `BundleError`) naming `subject`, the key and its value.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AgentError(f"{subject}: not valid TOML: {error}") from None
    file = _validated(raw, subject)
    models = () if isinstance(file.model.declared, str) else file.model.declared
    any_model = file.model.declared == "any"
    _require_fit(file, subject)
    run, folder, bundle = None, None, None
    try:
        if file.run is not None:
            folder, bundle = _read_bundle(file.run, base, subject)
            command = _program(file.run.command, bundle, subject)
            run = Run(command=command, env=file.run.env, wants_root=file.run.wants_root)
        revision = AgentRevision(
            **file.agent.model_dump(),
            models=models,
            any_model=any_model,
            run=run,
            bundle_digest=None if bundle is None else bundle.digest,
            endpoint=file.endpoint,
            acp=(file.acp or AcpTerms()) if file.agent.kind == "acp" else None,
        )
    except ValidationError as error:
        raise AgentError(listed(subject, sentences(error, {"env", "url"}))) from None
    return ParsedRevision(revision, folder, bundle)


def load_revision(path: Path) -> ParsedRevision:
    """Read the revision file `path`; errors as `parse_revision`."""
    subject = f"agent {path.name}"
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AgentError(f"{subject}: {path} cannot be read as text ({error})") from None
    return parse_revision(text, path.absolute().parent, subject)


def decode_revision(raw: bytes, subject: str) -> AgentRevision:
    """A stored revision from its canonical bytes; `AgentError` if they are not a revision."""
    try:
        data = canonical.decode_strict(raw)
        return AgentRevision.model_validate_json(json.dumps(data))
    except (canonical.CanonicalFormError, ValidationError) as error:
        raise AgentError(f"{subject}: the stored revision is damaged ({type(error).__name__})") from None
