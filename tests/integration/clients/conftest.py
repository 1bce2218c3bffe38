"""Locked third-party clients as an agent's bundle, and attempts in which they call the scripted provider.

The packages of tests/assets/clients/clients.lock are installed once per lock and kind of sandbox, into
pytest's own cache folder; a bundle is that folder and the scripts beside it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from orchestrator.agents.bundle import read_bundle
from orchestrator.agents.revision import Run
from orchestrator.attempts import AttemptControl, AttemptOrder, AttemptReport, Caps, PinnedModel, RelayTerms
from orchestrator.evidence import metering
from orchestrator.evidence.manifest import EvidenceManifest
from orchestrator.evidence.store import EvidenceStore
from orchestrator.evidence.transcript import Chain, read
from orchestrator.prices.sheet import PriceSheet
from workers.attempt.runner import AttemptRunner
from workers.rehearsal.script import find_script
from workers.sandbox.client import Engine

ASSETS: Final = Path(__file__).parents[2] / "assets" / "clients"
LOCK: Final = ASSETS / "clients.lock"
MIB: Final = 1 << 20
CAPS: Final = Caps(120_000, 20_000, 1024 * MIB, 2000, 256, 4 * MIB, 16 * MIB)
USER: Final = "1000:1000"
INSTRUCTION: Final = "Create hello.txt in the current folder, with the word hello in it.\n"
_OLDEST_GLIBC_MINOR: Final = 5
_ASK: Final = (
    "import json, platform, sys; "
    "print(json.dumps([*sys.version_info[:2], platform.machine(), platform.libc_ver()[1]]))"
)


@dataclass(frozen=True)
class Inside:
    """What decides which wheels run in the sandbox: its Python, machine and glibc (minor version)."""

    python: tuple[int, int]
    machine: str
    glibc_minor: int

    @classmethod
    def of(cls, engine: Engine, image: str) -> Inside:
        """Asked in a container without network."""
        api = engine.api
        made = api.create_container(image, ["python3", "-c", _ASK], network_disabled=True)
        try:
            api.start(made)
            assert api.wait(made)["StatusCode"] == 0
            major, minor, machine, glibc = json.loads(api.logs(made, stderr=False))
        finally:
            api.remove_container(made, force=True)
        return cls((major, minor), machine, int(glibc.split(".")[1]))

    def pip_options(self) -> list[str]:
        """The options that make pip choose wheels for the sandbox and not for this host."""
        version = ".".join(map(str, self.python))
        abis = (f"cp{version.replace('.', '')}", "abi3", "none")
        old = ("manylinux2014", "manylinux2010", "manylinux1")
        new = [f"manylinux_2_{minor}" for minor in range(self.glibc_minor, _OLDEST_GLIBC_MINOR - 1, -1)]
        return [
            *("--implementation", "cp", "--python-version", version),
            *(option for abi in abis for option in ("--abi", abi)),
            *(option for name in (*new, *old) for option in ("--platform", f"{name}_{self.machine}")),
        ]


def _install(inside: Inside, target: Path) -> None:
    """The locked packages into `target`, which appears when it is complete."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--require-hashes", "--no-deps", "--only-binary=:all:", "--no-compile"]
    environment = dict(os.environ)
    if authority := environment.get("SSL_CERT_FILE"):
        environment.setdefault("PIP_CERT", authority)  # older pips read nothing else
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="installing-") as folder:
        site = Path(folder, "site")
        command += [*inside.pip_options(), "--target", str(site), "--requirement", str(LOCK)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        shutil.rmtree(site / "bin", ignore_errors=True)  # they name the Python of this host
        if not target.exists():  # another run may have been quicker
            site.rename(target)


@pytest.fixture(scope="session")
def packages(pytestconfig: pytest.Config, engine: Engine, base_image: str) -> Path:
    """The folder of the installed packages, for `PYTHONPATH`."""
    assert pytestconfig.cache is not None
    inside = Inside.of(engine, base_image)
    key = hashlib.sha256(LOCK.read_bytes() + repr(inside).encode()).hexdigest()[:32]
    site = pytestconfig.cache.mkdir("assize-clients") / key
    if not site.exists():
        _install(inside, site)
    return site


@dataclass(frozen=True)
class Bundle:
    """A bundle's folder and its digest."""

    folder: Path
    digest: str


@pytest.fixture(scope="session")
def bundle(packages: Path) -> Iterator[Bundle]:
    """Packages and scripts in one folder; hard links, for they are hundreds of megabytes."""
    with tempfile.TemporaryDirectory(dir=packages.parent, prefix="bundle-") as name:
        folder = Path(name)
        shutil.copytree(packages, folder / "site", copy_function=os.link, symlinks=True)
        shutil.copytree(ASSETS / "inside", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__*"))
        yield Bundle(folder, read_bundle(folder).digest)


@dataclass(frozen=True)
class Ran:
    """One attempt's report and the files of its evidence by path."""

    report: AttemptReport
    files: Mapping[str, bytes]

    @cached_property
    def saw(self) -> Any:
        """What the script in the sandbox printed."""
        assert self.files["agent/stdout.txt"], self.files["agent/stderr.txt"].decode()
        return json.loads(self.files["agent/stdout.txt"])

    @cached_property
    def chain(self) -> Chain:
        """The transcript, checked link by link."""
        return read(self.files[metering.TRANSCRIPT_FILE])

    @cached_property
    def ledger(self) -> list[dict[str, Any]]:
        """One line per metered call."""
        return [json.loads(line) for line in self.files[metering.FILE_NAME].splitlines()]

    @cached_property
    def sandbox(self) -> Any:
        """The sandbox report."""
        return json.loads(self.files["sandbox-report.json"])

    def carried(self, path: str) -> bytes:
        """A file that the agent left behind; `path` is absolute."""
        with tarfile.open(fileobj=io.BytesIO(self.files["workspace/carried.tar"])) as tar:
            names = {"/" + name.removeprefix("./").lstrip("/"): name for name in tar.getnames()}
            stream = tar.extractfile(names[path])
            assert stream is not None
            return stream.read()


def _evidence(store: EvidenceStore, report: AttemptReport) -> dict[str, bytes]:
    assert report.manifest_digest is not None, report.observations
    manifest = EvidenceManifest.from_bytes(store.read(report.manifest_digest, MIB))
    return {file.path: store.read(file.sha256, 64 * MIB) for file in manifest.files if file.sha256}


def _greetings(folders: Sequence[str]) -> str:
    """A hidden test: every one of `folders` below the workspace holds the file that was asked for."""
    wanted = " ".join(folders)
    return (
        f'for one in {wanted}; do test "$(cat "/tmp/$one/hello.txt")" = hello || exit 0; done\n'
        "echo 1 > /logs/verifier/reward.txt\n"
    )


RunClient = Callable[..., Ran]


@pytest.fixture
def run_client(
    runner: AttemptRunner,
    control: AttemptControl,
    make_order: Callable[..., AttemptOrder],
    bundle: Bundle,
    base_image: str,
    tmp_path: Path,
) -> RunClient:
    """Runs one command of the bundle as an `exec` agent against the scripted provider.

    `models` are pinned in the role main, `folders` must hold hello.txt at the end, `script` is the rehearsal.
    """
    sheet = PriceSheet.bundled()
    prices = tmp_path / "prices.json"
    prices.write_text(sheet.text(), "utf-8")

    def run(
        command: Sequence[str],
        models: Sequence[str],
        folders: Sequence[str],
        *,
        script: str = str(ASSETS / "hello.toml"),
        cap_nusd: int = 1_000_000_000,
        env: Mapping[str, str] | None = None,
    ) -> Ran:
        settings = Run(command=tuple(command), env={"PYTHONPATH": "/opt/agent/site", **(env or {})})
        terms = RelayTerms(
            models=tuple(PinnedModel("main", model, "rehearsal") for model in models),
            cap_nusd=cap_nusd,
            step_limit=50,
            provider_tools=(),
            price_sheet=prices,
            prices_digest=sheet.digest,
            accounts=tmp_path / "providers.toml",
            rehearsal=find_script(script),
            state_root=tmp_path / "relay",
            forwarder_image=base_image,
        )
        order = make_order(
            "true",
            _greetings(folders),
            agent={"kind": "exec", "name": "client", "version": "1", "run": settings.model_dump(mode="json")},
            bundle_dir=bundle.folder,
            bundle_digest=bundle.digest,
            agent_user=USER,
            instruction=INSTRUCTION,
            caps=CAPS,
            relay=terms,
        )
        report = runner(order, control)
        return Ran(report, _evidence(EvidenceStore(order.evidence_root), report))

    return run
