"""Where packs are found: bundled with Assize, in the home folder, or at a path given by the user."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from orchestrator.errors import NotFoundError
from orchestrator.home import Home
from orchestrator.packs.errors import PackError
from orchestrator.packs.freeze import load_manifest
from orchestrator.packs.manifest import MANIFEST_FILE
from orchestrator.packs.pack import Pack, open_pack
from orchestrator.packs.task import CONFIG_FILE

BUNDLED: Final = Path(__file__).parent / "bundled"
PACKS_FOLDER: Final = "packs"

Origin = Literal["bundled", "home", "path"]


@dataclass(frozen=True)
class PackRef:
    """A pack that was found but not yet verified.

    `problem` says why its manifest cannot be read; then `name` is the folder's name and `version` is empty.
    A folder without manifest (bare Harbor tasks) has an empty version too: it is known once loaded.
    """

    name: str
    version: str
    title: str
    state: str
    path: Path
    origin: Origin
    problem: str | None = None

    @property
    def label(self) -> str:
        """`name@version`, or the name alone while the version is unknown."""
        return f"{self.name}@{self.version}" if self.version else self.name

    def load(self) -> Pack:
        """Verify and load it; `PackError` lists what is wrong."""
        return open_pack(self.path)


def describe(path: Path, origin: Origin) -> PackRef:
    """What the folder `path` says about itself, without verifying any file."""
    if not (path / MANIFEST_FILE).is_file():
        return PackRef(path.resolve().name, "", "Harbor tasks without a manifest", "implicit", path, origin)
    try:
        manifest = load_manifest(path)
    except PackError as error:
        return PackRef(path.name, "", "", "", path, origin, problem=error.message)
    return PackRef(manifest.name, manifest.version, manifest.title, manifest.state, path, origin)


def _folders(parent: Path) -> Iterable[Path]:
    if not parent.is_dir():
        return ()
    return sorted(path for path in parent.iterdir() if path.is_dir() and not path.name.startswith("."))


def list_packs(home: Home, *, bundled: Path = BUNDLED) -> list[PackRef]:
    """Every bundled pack, then every pack in the home folder, by name and version; broken ones included."""
    out: list[PackRef] = []
    places: tuple[tuple[Path, Origin], ...] = ((bundled, "bundled"), (home.root / PACKS_FOLDER, "home"))
    for parent, origin in places:
        found = (describe(path, origin) for path in _folders(parent))
        out += sorted(found, key=lambda ref: (ref.name, ref.version, str(ref.path)))
    return out


def resolve(home: Home, name_or_path: str, *, bundled: Path = BUNDLED) -> PackRef:
    """The pack that `name`, `name@version` or a path means; names win over paths without `/` or `.`.

    Raises `NotFoundError` when nothing fits (with close matches as hint) or when several packs do.
    """
    known = list_packs(home, bundled=bundled)
    matches = [ref for ref in known if name_or_path in (ref.name, ref.label)]
    if len(matches) > 1:
        listed = ", ".join(f"{ref.label} ({ref.path})" for ref in matches)
        raise NotFoundError(
            f"{name_or_path} means several packs: {listed}", hint="give name@version or the pack's folder"
        )
    if matches:
        return matches[0]
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return describe(path, "path")
    if path.name in (MANIFEST_FILE, CONFIG_FILE) and path.is_file():
        return describe(path.parent, "path")
    names = sorted({ref.label for ref in known} | {ref.name for ref in known})
    close = difflib.get_close_matches(name_or_path, names, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else "`assize packs list` shows the known packs"
    raise NotFoundError(f"no pack and no folder is called {name_or_path}", hint=hint)
