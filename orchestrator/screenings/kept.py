"""What a screening was planned from, kept in the home: any process can go on with it, on any host.

    kept/packs/<digest>/<name>/      the pack as it was planned, verified again whenever it is opened
    kept/agents/<digest>.json        the agent's revision, the model of this screening included
    kept/images/<screening>.json     the image Ids of the plan, by task and role

A ledger row names the digests; a folder or file that does not hash to them is refused. Hosts share the home
(a shared folder); keys are no part of this.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from orchestrator.agents.registry import RegisteredAgent
from orchestrator.agents.revision import decode_revision
from orchestrator.errors import HostError
from orchestrator.home import Home
from orchestrator.ledger import queries
from orchestrator.packs.pack import Pack, open_pack
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.screenings.bundling import write_file
from orchestrator.screenings.images import TaskImages, open_store, prepare_images
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.orders import Bench
from orchestrator.screenings.relaying import metering_for

_FOLDER: Final = "kept"


class KeptError(HostError):
    """What a screening was planned from is not in this home, or is not what it was."""

    code = "kept"


def _packs(home: Home, digest: str) -> Path:
    return home.root / _FOLDER / "packs" / digest


def _agent(home: Home, digest: str) -> Path:
    return home.root / _FOLDER / "agents" / f"{digest}.json"


def _images(home: Home, screening_id: str) -> Path:
    return home.root / _FOLDER / "images" / f"{screening_id}.json"


def keep(home: Home, screening_id: str, bench: Bench) -> None:
    """Store everything that the screening needs beside its ledger rows; again changes nothing."""
    _keep_pack(home, bench.pack)
    agent = _agent(home, bench.agent.digest)
    if not agent.exists():
        write_file(agent, bench.agent.revision.canonical_bytes())
    _keep_images(home, screening_id, bench)


def _keep_images(home: Home, screening_id: str, bench: Bench) -> None:
    images = _images(home, screening_id)
    if not images.exists():
        data = {task: asdict(one) for task, one in bench.images.items()}
        write_file(images, json.dumps(data, sort_keys=True).encode())


def _keep_pack(home: Home, pack: Pack) -> None:
    target = _packs(home, pack.digest)
    if target.is_dir():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as temporary:
        copy = Path(temporary) / "pack"
        # The folder's name is part of a pack without a manifest.
        shutil.copytree(pack.root, copy / pack.root.resolve().name, symlinks=True)
        try:
            copy.rename(target)
        except OSError:
            if not target.is_dir():  # somebody else kept the same pack meanwhile
                raise


def kept_pack(home: Home, digest: str) -> Pack:
    """The pack with this digest, verified file by file; `KeptError` when it is missing or altered."""
    folders = [path for path in _packs(home, digest).glob("*") if path.is_dir()]
    if len(folders) != 1:
        raise KeptError(
            f"pack {digest[:12]} is not kept in {home.root}",
            hint="workers share the home of the process that planned the screening (docs/many-hosts.md)",
        )
    pack = open_pack(folders[0])
    if pack.digest != digest:
        raise KeptError(f"the kept pack {digest[:12]} was altered", hint=f"restore {folders[0]}")
    return pack


def kept_agent(home: Home, digest: str) -> RegisteredAgent:
    """The agent revision with this digest; `KeptError` when it is missing or altered."""
    path = _agent(home, digest)
    try:
        revision = decode_revision(path.read_bytes(), f"agent {digest[:12]}")
    except OSError:
        raise KeptError(
            f"agent {digest[:12]} is not kept in {home.root}",
            hint="workers share the home of the process that planned the screening (docs/many-hosts.md)",
        ) from None
    if revision.digest != digest:
        raise KeptError(f"the kept agent {digest[:12]} was altered", hint=f"restore {path}")
    bundle = revision.bundle_digest
    folder = None if bundle is None else home.agents / "bundles" / bundle
    return RegisteredAgent(revision, digest, folder, builtin=False)


def _kept_images(home: Home, screening_id: str) -> dict[str, TaskImages]:
    try:
        data = json.loads(_images(home, screening_id).read_bytes())
        return {task: TaskImages.from_data(one) for task, one in data.items()}
    except (OSError, ValueError, TypeError, KeyError):
        raise KeptError(f"the images of screening {screening_id} are not kept in {home.root}") from None


def conditions_of(row: Mapping[str, Any]) -> ScreeningConditions:
    """The conditions that a screening was planned with."""
    return ScreeningConditions.model_validate_json(json.dumps(row["conditions"]))


def signing_bench(installation: Installation, screening_id: str) -> Bench:
    """What the signer needs of a screening: no engine and no provider's key is asked for."""
    home, row = installation.home, queries.screening(installation.ledger, screening_id)
    agent = kept_agent(home, row["agent_digest"])
    pack = kept_pack(home, row["pack_digest"])
    return Bench(installation, pack, agent, conditions_of(row), _kept_images(home, screening_id))


def _quiet(_line: str) -> None:
    """Progress of what is usually done already."""


def working_bench(
    installation: Installation, screening_id: str, say: Callable[[str], None] = _quiet
) -> Bench:
    """What a worker of this host needs to run tries of a screening.

    The images of the plan where this engine has them, by Id; else made here by the same recipes.
    """
    bench = signing_bench(installation, screening_id)
    metering = metering_for(installation.home, bench.agent, bench.conditions, say)
    bench = replace(bench, metering=metering)
    store = open_store(installation.home, say)
    try:
        wanted = frozenset[str]().union(*(one.every() for one in bench.images.values()))
        present = all(store.inspect(image) is not None for image in wanted)
    finally:
        store.client.close()
    if present:
        return bench
    tasks = [bench.pack.task(task) for task in bench.images]
    images = prepare_images(bench.pack, tasks, installation.home, say)
    return replace(bench, images=images)
