"""A packed bundle as an agent revision: its own `assize-agent.toml` says what it is."""

from __future__ import annotations

from pathlib import Path

from orchestrator.agents.bundle import BundleManifest, read_bundle
from orchestrator.agents.errors import AgentError
from orchestrator.agents.launching import AcpTerms, Libc
from orchestrator.agents.profile import FILE_NAME, Profile, load_profile
from orchestrator.agents.revision import MOUNT, AgentRevision, ParsedRevision


def load_packed(folder: Path) -> ParsedRevision:
    """Read a packed bundle; raises `AgentError` (or `BundleError`) for anything that cannot be run."""
    path = folder / FILE_NAME
    if not path.is_file():
        raise AgentError(f"{folder} holds no {FILE_NAME}", hint="`assize agents pack` makes such a folder")
    profile = load_profile(path)
    bundle = read_bundle(folder)
    return ParsedRevision(revision_of(profile, bundle), folder, bundle)


def revision_of(profile: Profile, bundle: BundleManifest) -> AgentRevision:
    """The revision of a packed agent; it takes whatever model a screening gives it.

    `AgentError` when the bundle does not hold what its command names, or the profile was never packed.
    """
    name = profile.agent.name
    if profile.packed is None:
        raise AgentError(f"profile {name} describes no bundle: it has no [packed] section")
    acp = profile.launch.acp if profile.packed.acp else None
    if profile.packed.acp and acp is None:
        raise AgentError(f"profile {name} does not say how it speaks the agent client protocol")
    launch = profile.launch.spoken() if acp else profile.launch
    if profile.packed.loader is not None and profile.packed.glibc is not None:
        needs = Libc(loader=profile.packed.loader, glibc=profile.packed.glibc)
        launch = launch.model_copy(update={"libc": needs})
    for part in launch.argv:
        inside = part.removeprefix("{{bundle}}/")
        if inside == part:
            continue
        entry = bundle.get(inside)
        if entry is None:
            raise AgentError(f"agent {name}: its command names {inside}, which the bundle does not hold")
        if part == launch.argv[0] and entry.type == "f" and not entry.executable:
            raise AgentError(f"agent {name}: {MOUNT}/{inside} is not executable")
    return AgentRevision(
        name=name,
        version=profile.packed.version,
        kind="acp" if acp else "packed",
        description=profile.agent.description,
        any_model=True,
        launch=launch,
        bundle_digest=bundle.digest,
        acp=AcpTerms(permission=acp.permission) if acp else None,
    )
