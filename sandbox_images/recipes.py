"""Recipes of base images: read from `recipes.toml`, matched by image name, identified by digest."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
import tomllib
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from .errors import RecipeError

_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_SUITE = re.compile(r"[a-z]{3,30}")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}")


@dataclass(frozen=True)
class Recipe:
    """One `[[recipe]]`; see the comments in `recipes.toml` for the fields."""

    match: str
    kind: str
    suite: str = ""
    standin: bool = False
    registry: str = ""
    packages: tuple[str, ...] = ()
    user: str = ""
    python_names: bool = False
    report: tuple[str, ...] = ()
    wheel: str = ""
    programs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in ("debian", "wheel"):
            raise RecipeError(f"recipe {self.match!r}: unknown kind {self.kind!r}")
        if bool(self.wheel) != (self.kind == "wheel"):
            raise RecipeError(f"recipe {self.match!r}: `wheel` goes with kind wheel, and only with it")
        for package in (*self.packages, *self.report):
            if not _PACKAGE.fullmatch(package):
                raise RecipeError(f"recipe {self.match!r}: {package!r} is no package name")
        if self.suite and not (self.kind == "debian" and _SUITE.fullmatch(self.suite)):
            raise RecipeError(f"recipe {self.match!r}: {self.suite!r} is no Debian release, or not for one")
        if self.user and not _USER.fullmatch(self.user):
            raise RecipeError(f"recipe {self.match!r}: {self.user!r} is no user name")

    def digest(self, *origin: str) -> str:
        """sha256 (hex) over what the image is made of and where that comes from.

        The name pattern is left out: two names with the same content share one image.
        """
        left_out = {"match", "report"} | (set() if self.suite else {"suite"})  # older digests stay
        content = {key: value for key, value in asdict(self).items() if key not in left_out}
        text = json.dumps([FORMAT, content, list(origin)], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


FORMAT = 1
"""Raise when the way of building changes, so that images of the older way are not reused."""


RECIPES = Path(__file__).with_name("recipes.toml")


def load_recipes(path: Path = RECIPES) -> tuple[Recipe, ...]:
    """All recipes in file order; RecipeError on anything unknown."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise RecipeError(f"{path.name}: {error}") from error
    known = {field.name for field in fields(Recipe)}
    recipes = []
    for entry in data.get("recipe", []):
        if set(entry) - known:
            raise RecipeError(f"{path.name}: unknown key {sorted(set(entry) - known)[0]!r}")
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
        }
        recipes.append(Recipe(**values))
    return tuple(recipes)


def find_recipe(name: str, recipes: tuple[Recipe, ...]) -> Recipe | None:
    """The first recipe whose pattern matches; a name pinned by digest has none, its content is given."""
    if "@" in name:
        return None
    return next((r for r in recipes if fnmatch.fnmatchcase(name, r.match)), None)


def canonical_name(name: str) -> str:
    """One spelling per image: default registry prefixes dropped, `latest` spelled out."""
    short = name
    for prefix in ("docker.io/", "index.docker.io/", "library/"):
        short = short.removeprefix(prefix)
    last = short.rsplit("/", 1)[-1]
    return short if "@" in last or ":" in last else f"{short}:latest"
