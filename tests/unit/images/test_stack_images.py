"""The images of docker-compose.yml: their lock, wheels for another Python; and Compose itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from sandbox_images.errors import HostSetupError
from sandbox_images.host import AptSource, Distribution
from sandbox_images.stack.plugin import new_enough, origin
from sandbox_images.stack.wheels import download_command, for_python

ROOT = Path(__file__).parents[3]
LOCK = """\
# written by make lock
always==1 \\
    --hash=sha256:aa
    # via x
old-only==2 ; python_full_version < '3.11.3' \\
    --hash=sha256:bb \\
    --hash=sha256:cc
new-only==3 ; python_full_version >= '3.12' \\
    --hash=sha256:dd
windows==4 ; sys_platform == 'win32' \\
    --hash=sha256:ee
"""


def entries(name: str) -> set[str]:
    """Every requirement of a lock with its hashes, without comments and conditions."""
    text = re.sub(r"^\s*#.*\n| ; [^\\\n]*", "", (ROOT / name).read_text(), flags=re.MULTILINE)
    return set(re.split(r"\n(?=\S)", text.strip()))


def test_the_run_lock_is_a_part_of_the_lock() -> None:
    """The stack runs the versions that are tested; after a change of pyproject.toml: make lock."""
    assert entries("requirements.run.lock") < entries("requirements.lock")


def test_the_run_lock_has_every_dependency() -> None:
    """A package that was added to pyproject.toml must be in the image too."""
    text = (ROOT / "pyproject.toml").read_text()
    block = text.partition("\ndependencies = [")[2].partition("\n]")[0]
    wanted = {re.split(r"[\[<>=~]", name)[0].lower() for name in re.findall(r'^\s+"([^"]+)"', block, re.M)}
    locked = {entry.partition("==")[0] for entry in entries("requirements.run.lock")}
    assert wanted and wanted <= {re.split(r"\[", one)[0] for one in locked}


def test_the_archive_of_evidence_is_in_the_image() -> None:
    """`ASSIZE_EVIDENCE_ARCHIVE=s3://...` works in the stack: the extra `s3` is locked for it."""
    wanted = {re.split(r"[<>=]", one)[0] for one in extra("s3")}
    assert wanted == {"boto3"} and wanted <= names("requirements.run.lock")


def test_flower_has_a_lock_of_its_own_and_the_app_has_none_of_it() -> None:
    """The version is the extra's; what it shares with the stack is the same; no code of databases or keys."""
    (wanted,) = map(Requirement, extra("flower"))
    versions = dict(one.partition(" ")[0].split("==") for one in entries("requirements.flower.lock"))
    assert wanted.specifier.contains(versions["flower"])
    assert {"tornado", "celery", "redis"} <= versions.keys()
    assert not {"sqlalchemy", "cryptography", "docker", "boto3", "psycopg"} & versions.keys()
    assert not {"flower", "tornado"} & names("requirements.run.lock")
    run = entries("requirements.run.lock")
    shared = {one for one in entries("requirements.flower.lock") if one.partition("==")[0] in names_of(run)}
    assert shared and shared <= run


def extra(name: str) -> list[str]:
    """What pyproject.toml has under the name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["optional-dependencies"][name])


def names(lock: str) -> set[str]:
    """The packages of a lock."""
    return names_of(entries(lock))


def names_of(found: set[str]) -> set[str]:
    return {one.partition("==")[0] for one in found}


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements.run.lock", "requirements.flower.lock"])
def test_a_lock_has_hashes_and_no_address(lock: str) -> None:
    """Where packages come from is the host's own affair."""
    text = (ROOT / lock).read_text()
    assert "://" not in text and "--index" not in text
    assert all("--hash=sha256:" in one for one in entries(lock))


@pytest.mark.parametrize(
    ("python", "kept"),
    [
        ("3.11.2", ["always==1", "old-only==2"]),
        ("3.11.9", ["always==1"]),
        ("3.12.1", ["always==1", "new-only==3"]),
    ],
)
def test_conditions_are_judged_for_the_python_of_the_image(python: str, kept: list[str]) -> None:
    """Not for the host's, as pip would; what is kept has its hashes and no condition."""
    text = for_python(LOCK, python)
    assert re.findall(r"^([a-z-]+==\d)", text, re.M) == kept
    assert ";" not in text
    assert (
        text.count("--hash") == {"always==1": 1, "old-only==2": 2, "new-only==3": 1}[kept[-1]] + len(kept) - 1
    )


def test_pip_checks_hashes_and_takes_no_sources() -> None:
    command = download_command(Path("lock"), "3.99.1", Path("out"))
    assert "--require-hashes" in command
    assert command[command.index("--only-binary") + 1] == ":all:"
    assert command[command.index("--python-version") + 1] == "3.99.1"


@pytest.mark.parametrize(
    ("answer", "enough"),
    [
        ("2.26.1-4", True),
        ("v2.20.0", True),
        ("2.19.1", False),
        ("1.29.2", False),
        ("", False),
        ("5.0.1", True),
    ],
)
def test_which_compose_is_new_enough(answer: str, enough: bool) -> None:
    assert new_enough(answer) is enough


def distribution(name: str, codename: str) -> Distribution:
    return Distribution(name, (), codename, name)


def test_compose_comes_from_the_hosts_own_mirror_with_its_key() -> None:
    """Only the suite is another one where Debian's own has no such package."""
    own = AptSource("http://mirror/debian", "bookworm", ("main",), "/keys/debian-archive.gpg")
    security = AptSource("http://mirror/security", "bookworm-security", ("main",), "/keys/debian-archive.gpg")
    source, package = origin(distribution("debian", "bookworm"), [security, own])
    assert source == AptSource(own.uri, "trixie", ("main",), own.signed_by) and package == "docker-compose"
    ubuntu = AptSource("http://mirror/ubuntu", "noble", ("main", "universe"), "")
    assert origin(distribution("ubuntu", "noble"), [ubuntu]) == (ubuntu, "docker-compose-v2")


def test_where_no_package_is_known_it_says_what_to_install() -> None:
    with pytest.raises(HostSetupError) as caught:
        origin(distribution("fedora", "41"), [])
    assert "docker-compose-plugin" in str(caught.value.hint)
