"""Packing: what the registry's client gave is checked, pruned and normalised; nothing of it is run."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import stat
import sys
import tarfile
from pathlib import Path

import pytest

from orchestrator.agents.errors import AgentError
from orchestrator.agents.packing import npm, python
from orchestrator.agents.packing.client import PackingError, client
from orchestrator.agents.packing.pack import Packed, Wish, pack
from orchestrator.agents.packing.python import ImagePython, compile_site
from orchestrator.agents.profile import Package, parse_profile

GOOD = (Path(__file__).parents[2] / "assets" / "agents" / "profiles" / "good.toml").read_text("utf-8")
FAKE_NPM = """#!{python}
import json, pathlib, shutil, sys
here = pathlib.Path(__file__).parent
(here / "called.jsonl").open("a").write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "view":
    print((here / "integrity.json").read_text())
else:
    shutil.copy(here / "package.tgz", pathlib.Path(sys.argv[-1]) / "package.tgz")
    print(json.dumps([{{"filename": "package.tgz"}}]))
"""
FILES = {
    "package/vendor/one/bin/sample": (0o644, b"#!/bin/sh\n"),
    "package/vendor/one/big/voice": (0o755, b"x" * 1000),
    "package/vendor/one/data": (0o600, b"data"),
    "package/README.md": (0o644, b"outside of the root"),
}


def tarball(extra: tuple[tarfile.TarInfo, ...] = ()) -> bytes:
    """The package as a registry would give it; the same bytes at every time of day."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed_up,
        tarfile.open(fileobj=packed_up, mode="w") as tar,
    ):
        for name, (mode, data) in FILES.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), mode
            tar.addfile(info, io.BytesIO(data))
        for info in extra:
            tar.addfile(info)
    return buffer.getvalue()


def stated(data: bytes) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an `npm` that serves `package.tgz` and states `integrity.json`."""
    folder = tmp_path / "npm"
    folder.mkdir()
    (folder / "npm").write_text(FAKE_NPM.format(python=sys.executable))
    (folder / "npm").chmod(0o755)
    serve(folder, tarball())
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def serve(folder: Path, data: bytes) -> None:
    (folder / "package.tgz").write_bytes(data)
    (folder / "integrity.json").write_text(json.dumps(stated(data)))


def packed(folder: Path, text: str = GOOD, label: str | None = None, *, acp: bool = False) -> Packed:
    folder.mkdir()
    (folder / "bundle").mkdir()
    (folder / "scratch").mkdir()
    return pack(Wish(text, "1.2.3", label, acp=acp), folder / "bundle", folder / "scratch", lambda line: None)


@pytest.mark.usefixtures("registry")
def test_the_bundle_holds_the_wanted_part_normalised(tmp_path: Path) -> None:
    """Pruned, x bit given back, modes plain, a MANIFEST that is right, sources with the stated integrity."""
    found = packed(tmp_path / "a", label="b2")
    bundle = found.parsed.bundle
    assert bundle is not None
    assert [(one.path, one.executable) for one in bundle.entries] == [
        ("app/bin/sample", True),
        ("app/data", False),
        ("assize-agent.toml", False),
    ]
    folder = found.parsed.bundle_dir
    assert folder is not None and (folder / "MANIFEST").read_text() == bundle.text
    assert stat.S_IMODE((folder / "app" / "data").stat().st_mode) == 0o644
    assert found.parsed.revision.label == "sample@1.2.3-b2"
    (source,) = found.facts.sources
    assert (source.name, source.version) == (f"sample-{npm.arch()}", "1.2.3")
    assert source.integrity == stated(tarball())


@pytest.mark.usefixtures("registry")
def test_the_same_packages_make_the_same_bundle(tmp_path: Path) -> None:
    """No times, owners or places in it."""
    first, second = packed(tmp_path / "a"), packed(tmp_path / "b")
    assert first.parsed.revision.digest == second.parsed.revision.digest


@pytest.mark.usefixtures("registry")
def test_an_agent_is_packed_to_be_talked_to(tmp_path: Path) -> None:
    """Said in the bundle and in the version; refused before anything is fetched where it cannot be."""
    spoken = GOOD + '\n[launch.acp]\nargv = ["{{bundle}}/app/bin/sample", "acp"]\n'
    revision = packed(tmp_path / "a", spoken, "x", acp=True).parsed.revision
    assert (revision.label, revision.kind) == ("sample@1.2.3-acp-x", "acp")
    with pytest.raises(PackingError, match=r"has no \[launch.acp\] section"):
        packed(tmp_path / "b", acp=True)


def test_scripts_are_off_and_the_version_is_exact(registry: Path, tmp_path: Path) -> None:
    """What is asked of the client."""
    packed(tmp_path / "a")
    view, got = [json.loads(line) for line in (registry / "called.jsonl").read_text().splitlines()]
    assert view[1] == got[1] == f"sample-{npm.arch()}@1.2.3"
    assert "--ignore-scripts" in got


def test_other_bytes_than_stated_are_refused(registry: Path, tmp_path: Path) -> None:
    """The registry's integrity is compared with what arrived."""
    (registry / "integrity.json").write_text(json.dumps(stated(b"something else")))
    with pytest.raises(PackingError, match="is not what the registry states"):
        packed(tmp_path / "a")


def test_no_integrity_is_refused(registry: Path, tmp_path: Path) -> None:
    """A version that is not there has none."""
    (registry / "integrity.json").write_text("")
    with pytest.raises(PackingError, match="states no SHA-512"):
        packed(tmp_path / "a")


@pytest.mark.parametrize("name", ["../outside", "/outside"])
def test_a_tarball_that_leaves_its_folder_is_harmless(registry: Path, tmp_path: Path, name: str) -> None:
    """Nothing is written beside the scratch folder."""
    serve(registry, tarball((tarfile.TarInfo(name),)))
    with pytest.raises(PackingError):
        packed(tmp_path / "a")
    assert not (tmp_path / "a" / "outside").exists() and not Path("/outside").exists()


@pytest.mark.usefixtures("registry")
def test_a_package_that_changed_its_layout_is_refused(tmp_path: Path) -> None:
    """No folder where the profile looks, or no program where its command looks."""
    with pytest.raises(PackingError, match=r"other/\* fits 0 folders"):
        packed(tmp_path / "a", GOOD.replace("vendor/*", "other/*"))
    with pytest.raises(AgentError, match="names app/bin/moved"):
        packed(tmp_path / "b", GOOD.replace("app/bin/sample", "app/bin/moved"))


def test_a_client_that_is_missing_or_fails_is_said() -> None:
    """Without a traceback, with the end of its own words."""
    with pytest.raises(PackingError, match="no-such-client is not installed"):
        client(["no-such-client"])
    with pytest.raises(PackingError, match="failed: it is wrong"):
        client([sys.executable, "-c", "import sys; sys.exit('it is wrong')"])


def test_a_python_agent_needs_an_image(tmp_path: Path) -> None:
    """Its wheels are chosen for the image's Python."""
    text = GOOD.replace('npm = [{ name = "sample-{{arch}}", root = "vendor/*" }]', 'pip = "sample"')
    assert parse_profile(text, "x").package.pip == "sample"
    with pytest.raises(PackingError, match="name the image"):
        packed(tmp_path / "a", text)


@pytest.mark.parametrize(
    ("wanted", "version", "runs"),
    [
        (">=3.12", (3, 11), False),
        (">=3.12", (3, 12), True),
        (">=3.9", (3, 11), True),
        ("==3.12", (3, 13), False),
        ("==3.12", (3, 12), True),
        (None, (2, 7), True),
    ],
)
def test_which_python_an_agent_runs_on(
    wanted: str | None, version: tuple[int, int], runs: bool, tmp_path: Path
) -> None:
    """As its package states; another is refused in one sentence, before anything is fetched."""
    package = Package(pip="no-such-package", python=wanted)
    assert package.runs_on(version) == runs
    if runs:
        return
    text = GOOD.replace(
        'npm = [{ name = "sample-{{arch}}", root = "vendor/*" }]', f'pip = "x"\npython = "{wanted}"'
    )
    (tmp_path / "a").mkdir()
    wish = Wish(text, "1", image=ImagePython(version, "x86_64", 36))
    with pytest.raises(
        PackingError, match=f"sample needs Python {wanted}, and that of the image is 3"
    ) as caught:
        pack(wish, tmp_path / "a", tmp_path, lambda line: None)
    assert "--image" in str(caught.value.hint)


def test_byte_code_holds_no_time_and_no_place(tmp_path: Path) -> None:
    """Two folders, two times: the same bytes; another Python makes none."""
    image = ImagePython((sys.version_info[0], sys.version_info[1]), "x86_64", 36)
    made = []
    for number, name in enumerate(("a", "b")):
        site = tmp_path / name / "site"
        site.mkdir(parents=True)
        (site / "one.py").write_text("def f(): return 1\n")
        os.utime(site / "one.py", (number * 1000, number * 1000))
        assert compile_site(tmp_path / name, image)
        (code,) = (site / "__pycache__").iterdir()
        made.append(code.read_bytes())
    assert made[0] == made[1] and str(tmp_path).encode() not in made[0]
    assert not compile_site(tmp_path, ImagePython((3, 2), "x86_64", 36))


def test_a_requirement_without_a_wheel_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip says it at length; nothing is built on the host instead. Other trouble is told as it is."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_INDEX_URL", folder.as_uri())
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    image = ImagePython((3, 11), "x86_64", 36)
    with pytest.raises(PackingError) as caught:
        python.fetch("no-such-thing", "1.0", image, tmp_path / "app", None)
    assert caught.value.message == (
        "no-such-thing 1.0 needs no-such-thing, which has no wheel for Python 3.11"
    )
    with pytest.raises(PackingError, match="failed"):
        python.fetch("no such name!", "1.0", image, tmp_path / "app", None)


def test_wheels_are_chosen_for_the_image() -> None:
    """Nothing newer than its C library."""
    options = ImagePython((3, 11), "x86_64", 17).pip_options()
    assert "manylinux_2_17_x86_64" in options and "manylinux_2_18_x86_64" not in options
    assert options[:4] == ["--implementation", "cp", "--python-version", "3.11"]
