"""Profiles: how a known agent is packed and started, one strict TOML file each (`profiles/*.toml`).

A packed bundle carries its profile as `assize-agent.toml`, with what was packed in `[packed]` before it.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from orchestrator.agents.errors import AgentError, listed
from orchestrator.agents.launching import GLIBC, LOADER, LaunchTemplate
from orchestrator.agents.templates import placeholders
from orchestrator.packs.validation import sentences

PROFILES: Final = Path(__file__).parent / "profiles"
FILE_NAME: Final = "assize-agent.toml"
NPM_NAME: Final = r"^(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9{][a-z0-9._{}-]*$"
PIP_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
EXACT_VERSION: Final = r"^[0-9][0-9A-Za-z.+-]*$"


def _below(glob: str) -> str:
    if ".." in glob:
        raise ValueError("a path stays below its folder")
    return glob


Glob = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9._*@+-][A-Za-z0-9._*@/+-]*$", max_length=200), AfterValidator(_below)
]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class NpmPackage(_Model):
    """One package of the npm registry, taken as its tarball: nothing of it is run.

    `name` and `version_suffix` may use `{{arch}}` (`x64`, `arm64`): platform packages are taken directly.
    Of the tarball the folder `root` is kept (a glob that fits one folder), below `app/` + `into`. `version`
    is only for packages beside the agent's own.
    """

    name: Annotated[str, Field(pattern=NPM_NAME)]
    version: Annotated[str, Field(pattern=EXACT_VERSION)] | None = None
    version_suffix: Annotated[str, Field(pattern=r"^[a-z0-9{}-]*$")] = ""
    root: Glob = "."
    into: Glob = "."


class SourcePackage(_Model):
    """A requirement of which no wheel exists: this very file is built by its own code, in a sandbox."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=100)]
    version: Annotated[str, Field(pattern=EXACT_VERSION)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Package(_Model):
    """What is fetched: `npm` tarballs, or with `pip` a Python package and all it needs, into `app/site`.

    `prune` and `executable` are globs below `app/`: what is left out, and what gets its x bit back. `python`
    is the Python that a pip package needs of the image, as it states itself: `>=3.12`, or `==3.12`. `build`
    names the requirements that are built from source; of any other only wheels are taken.
    """

    npm: tuple[NpmPackage, ...] = ()
    pip: Annotated[str, Field(pattern=PIP_NAME)] | None = None
    python: Annotated[str, Field(pattern=r"^(==|>=)[0-9]\.[0-9]{1,2}$")] | None = None
    build: tuple[SourcePackage, ...] = ()
    prune: tuple[Glob, ...] = ()
    executable: tuple[Glob, ...] = ()

    def runs_on(self, python: tuple[int, int]) -> bool:
        """Whether a Python of this version is one that the package takes."""
        if self.python is None:
            return True
        exact, wanted = self.python.startswith("=="), self.python[2:].split(".")
        needed = (int(wanted[0]), int(wanted[1]))
        return python == needed if exact else python >= needed

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if bool(self.npm) == (self.pip is not None):
            raise ValueError("a profile takes its agent from npm or from pip")
        if (self.python is not None or self.build) and self.pip is None:
            raise ValueError("python and build are for packages of pip")
        if self.npm and [one.version for one in self.npm].count(None) != 1:
            raise ValueError("exactly one npm package has no version of its own: the agent's")
        used = placeholders(text for one in self.npm for text in (one.name, one.version_suffix))
        if used - {"arch"}:
            raise ValueError("names of packages may use {{arch}} only")
        return self


class About(_Model):
    """What the agent is. `licence` is its own statement."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=100)]
    description: Annotated[str, Field(max_length=2000)]
    licence: Annotated[str, Field(max_length=200)]


class Source(_Model):
    """One package that was packed; `integrity` is what the registry states (`sha512-...`), else None.

    `built` is that of the wheel that was made here of a source package, whose own `integrity` is.
    """

    registry: Literal["npm", "pypi"]
    name: str
    version: str
    integrity: str | None = None
    built: str | None = None


class PackedFacts(_Model):
    """What a bundle was packed from. `python` is the `X.Y` that a Python agent was packed for, `python_from`
    the Id of the image whose Python it brings (None: it needs that of the task's image).

    `loader` and `glibc` are what its programs need of a task's image, read from them; None for static ones.
    `acp`: it was packed to be driven by the agent client protocol.
    """

    version: Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z._+-]*$", max_length=100)]
    machine: str
    python: str | None = None
    python_from: str | None = None
    loader: Annotated[str, Field(pattern=LOADER)] | None = None
    glibc: Annotated[str, Field(pattern=GLIBC)] | None = None
    sources: tuple[Source, ...]
    acp: bool = False


class Profile(_Model):
    """One profile; `packed` only in a bundle."""

    agent: About
    package: Package
    launch: LaunchTemplate
    packed: PackedFacts | None = None


def parse_profile(text: str, subject: str) -> Profile:
    """Read a profile's TOML; `AgentError` names `subject`, the key and its value."""
    try:
        raw: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AgentError(f"{subject}: not valid TOML: {error}") from None
    try:
        return Profile.model_validate_json(json.dumps(raw, default=str))
    except ValidationError as error:
        raise AgentError(listed(subject, sentences(error, {"env", "files"}))) from None


def load_profile(path: Path) -> Profile:
    """Read the profile file `path`; errors as `parse_profile`."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AgentError(f"profile {path.name}: cannot be read as text ({type(error).__name__})") from None
    return parse_profile(text, f"profile {path.name}")


def profile_names() -> list[str]:
    """The built-in profiles, sorted."""
    return sorted(path.stem for path in PROFILES.glob("*.toml"))


def find_profile(value: str) -> Path:
    """The file of a built-in profile's name, or of a path ending in `.toml`; `AgentError` if neither is."""
    if value in profile_names():
        return PROFILES / f"{value}.toml"
    if value.endswith(".toml") and Path(value).is_file():
        return Path(value)
    raise AgentError(f"there is no profile {value}", hint=f"profiles: {', '.join(profile_names())}")
