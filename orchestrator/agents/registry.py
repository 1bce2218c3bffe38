"""Registered agent revisions: copied, content-addressed, never changed (`home.agents`).

    revisions/<digest>.json      canonical bytes of the revision; the file's name is their SHA-256
    bundles/<bundle digest>/     the bundle's files and its MANIFEST

A name and version belongs to one digest for ever; the built-in agents are always there.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.agents.bundle import MANIFEST_NAME, BundleManifest, copy_bundle, read_bundle
from orchestrator.agents.errors import AgentError, BundleError
from orchestrator.agents.packed import load_packed
from orchestrator.agents.revision import AgentRevision, ParsedRevision, decode_revision, load_revision
from orchestrator.errors import NotFoundError
from orchestrator.home import Home

BUILTIN: Final = Path(__file__).parent / "builtin"
_PREFIX: Final = re.compile(r"[0-9a-f]{4,64}")


@dataclass(frozen=True)
class RegisteredAgent:
    """A revision that can be planned. `bundle_dir` is the stored bundle, None if it brings none."""

    revision: AgentRevision
    digest: str
    bundle_dir: Path | None
    builtin: bool

    def verify_bundle(self) -> None:
        """Hash the stored bundle again; `BundleError` unless it is what was registered."""
        if self.bundle_dir is None:
            return
        found = read_bundle(self.bundle_dir).digest
        if found != self.revision.bundle_digest:
            raise BundleError(
                f"agent {self.revision.label}: its stored bundle is not what was registered",
                hint=f"remove {self.bundle_dir} and register the agent again",
            )


def _revisions(home: Home) -> Path:
    return home.agents / "revisions"


def _bundle_dir(home: Home, revision: AgentRevision) -> Path | None:
    return None if revision.bundle_digest is None else home.agents / "bundles" / revision.bundle_digest


def has_bundle(home: Home, digest: str) -> bool:
    """Whether a registered agent's bundle of this digest is stored in the home."""
    return (home.agents / "bundles" / digest / MANIFEST_NAME).is_file()


def _registered(home: Home, revision: AgentRevision) -> RegisteredAgent:
    return RegisteredAgent(revision, revision.digest, _bundle_dir(home, revision), builtin=False)


def _builtins() -> list[RegisteredAgent]:
    parsed = (load_revision(path).revision for path in sorted(BUILTIN.glob("*.toml")))
    return [RegisteredAgent(revision, revision.digest, None, builtin=True) for revision in parsed]


def list_agents(home: Home) -> list[RegisteredAgent]:
    """Built-in agents, then registered ones by name and version; `AgentError` if a stored one is damaged."""
    stored: list[RegisteredAgent] = []
    for path in sorted(_revisions(home).glob("*.json")):
        agent = _registered(home, decode_revision(path.read_bytes(), f"agent {path.stem[:12]}"))
        if agent.digest != path.stem:
            raise AgentError(f"agent {path.stem[:12]}: the stored revision is damaged (digest differs)")
        stored.append(agent)
    return _builtins() + sorted(stored, key=lambda agent: (agent.revision.name, agent.revision.version))


def _store_bundle(home: Home, source: Path, bundle: BundleManifest) -> None:
    """Copy a bundle to its address: into a temporary folder, then renamed.

    Every file is hashed while it is copied. What is stored is read again by `verify_bundle`, which whoever
    adds, screens or tests an agent calls.
    """
    target = home.agents / "bundles" / bundle.digest
    if target.is_dir():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as temporary:
        folder = Path(temporary) / "bundle"
        folder.mkdir()
        copy_bundle(source, bundle, folder)
        try:
            folder.rename(target)
        except OSError:
            # Somebody else registered the same bundle meanwhile; the address guarantees the same content.
            if not target.is_dir():
                raise
            shutil.rmtree(folder)


def _store_revision(home: Home, revision: AgentRevision) -> None:
    folder = _revisions(home)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{revision.digest}.json"
    if path.exists():
        return
    temporary = folder / f".{revision.digest}.{os.getpid()}"
    temporary.write_bytes(revision.canonical_bytes())
    temporary.replace(path)


def register(home: Home, parsed: ParsedRevision) -> RegisteredAgent:
    """Store a parsed revision and its bundle; registering the same content again changes nothing.

    `AgentError` when the name and version already belong to other content.
    """
    revision = parsed.revision
    taken = {agent.revision.name: agent.digest for agent in _builtins()}
    if revision.kind not in ("exec", "packed", "acp", "http-chat") and revision.digest not in taken.values():
        raise AgentError(f"agent {revision.label}: kind {revision.kind} is built in and cannot be registered")
    if taken.get(revision.name, revision.digest) != revision.digest:
        raise AgentError(f"agent {revision.label}: the name {revision.name} belongs to a built-in agent")
    for known in list_agents(home):
        if known.revision.label == revision.label:
            if known.digest == revision.digest:
                if parsed.bundle_dir is not None and parsed.bundle is not None:
                    _store_bundle(home, parsed.bundle_dir, parsed.bundle)
                return known
            raise AgentError(
                f"agent {revision.label} is already registered with other content ({known.digest[:12]})",
                hint="raise agent.version; a registered revision never changes",
            )
    if parsed.bundle_dir is not None and parsed.bundle is not None:
        _store_bundle(home, parsed.bundle_dir, parsed.bundle)
    _store_revision(home, revision)
    return _registered(home, revision)


def add(home: Home, path: Path) -> RegisteredAgent:
    """Register the revision in a file, or the packed agent in a folder."""
    return register(home, load_packed(path) if path.is_dir() else load_revision(path))


def show(home: Home, text: str) -> RegisteredAgent:
    """The agent that `name`, `name@version` or a digest prefix (at least 4 hex digits) means.

    `NotFoundError` when nothing fits (with close matches as hint) or when several agents do.
    """
    known = list_agents(home)
    matches = [agent for agent in known if text in (agent.revision.name, agent.revision.label)]
    if not matches and _PREFIX.fullmatch(text):
        matches = [agent for agent in known if agent.digest.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        listed = ", ".join(f"{agent.revision.label} ({agent.digest[:12]})" for agent in matches)
        raise NotFoundError(f"{text} means several agents: {listed}", hint="give name@version")
    names = sorted({agent.revision.label for agent in known} | {agent.revision.name for agent in known})
    close = difflib.get_close_matches(text, names, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else "`assize agents list` shows the known agents"
    raise NotFoundError(f"no agent is called {text}", hint=hint)


def resolve(home: Home, text: str) -> RegisteredAgent:
    """As `show`; a path to a `.toml` file registers it first."""
    path = Path(text).expanduser()
    if path.suffix == ".toml":
        if not path.is_file():
            raise NotFoundError(f"no agent file {text}", hint="give the path of an agent's .toml file")
        return add(home, path)
    return show(home, text)
