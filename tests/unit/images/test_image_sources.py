"""Where base images come from: the distribution's own sources, recipes, and remembered refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_images import debian, host, wheel
from sandbox_images.errors import HostSetupError, ImageUnavailableError, RecipeError
from sandbox_images.host import AptSource, read_apt_sources, read_distribution
from sandbox_images.recipes import RECIPES, canonical_name, find_recipe, load_recipes
from sandbox_images.registry import Refusals, registry_of, split_name

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
DEB822 = """\
Types: deb deb-src
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
 bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://third.example/apt
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/third-party.gpg

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no
"""
ONE_LINE = f"""\
# deb http://commented.example/debian bookworm main
deb [arch=amd64 signed-by={KEYRING}] https://sec.example/d bookworm-security main
deb cdrom:[Debian]/ bookworm main
deb http://tools.example/pg bookworm-pgdg main
deb http://plain.example/debian/ bookworm main non-free # note
"""


def test_only_the_distributions_own_suites_are_taken(tmp_path: Path) -> None:
    """Issue 2: from the host's own package sources; third parties beside them never reach an image."""
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "debian.sources").write_text(DEB822)
    (tmp_path / "sources.list").write_text(ONE_LINE)
    assert read_apt_sources("bookworm", tmp_path) == [
        AptSource("http://mirror.example/debian", "bookworm", ("main",), KEYRING),
        AptSource("http://mirror.example/debian", "bookworm-updates", ("main",), KEYRING),
        AptSource("http://plain.example/debian", "bookworm", ("main",), ""),
        AptSource("https://sec.example/d", "bookworm-security", ("main",), KEYRING),
    ]


def test_another_release_comes_from_the_same_mirrors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every suite of the host's own release has its like; an Ubuntu has none of Debian's."""
    ours = [AptSource("http://m/d", name, ("main",), KEYRING) for name in ("bookworm", "bookworm-updates")]
    ours.append(AptSource("http://m/security", "bookworm-security", ("main",), KEYRING))
    monkeypatch.setattr(debian, "read_apt_sources", lambda codename: ours)
    bookworm = host.Distribution("debian", (), "bookworm", "Debian 12")
    monkeypatch.setattr(debian, "read_distribution", lambda: bookworm)
    distribution, found = debian.host_origin("trixie")
    assert distribution.codename == "trixie"
    assert [(one.uri, one.suite) for one in found] == [
        ("http://m/d", "trixie"),
        ("http://m/d", "trixie-updates"),
        ("http://m/security", "trixie-security"),
    ]
    assert debian.host_origin() == (bookworm, ours)
    ubuntu = host.Distribution("ubuntu", ("debian",), "noble", "Ubuntu 24.04")
    monkeypatch.setattr(debian, "read_distribution", lambda: ubuntu)
    with pytest.raises(HostSetupError, match="no package sources of Debian trixie"):
        debian.host_origin("trixie")


def test_source_lines() -> None:
    assert (
        AptSource("http://m/d", "s", ("main", "universe"), "/k").line()
        == "deb [signed-by=/k] http://m/d s main universe"
    )
    assert AptSource("http://m/d", "s", ("main",), "").line() == "deb http://m/d s main"


def test_os_release(tmp_path: Path) -> None:
    path = tmp_path / "os-release"
    path.write_text(
        'NAME="X"\nID=mint\nID_LIKE="ubuntu debian"\nVERSION_CODENAME=vera\nPRETTY_NAME="Mint 21"\n'
    )
    found = read_distribution(path)
    assert (found.id, found.codename, found.name, found.debian_like) == ("mint", "vera", "Mint 21", True)
    assert not read_distribution(tmp_path / "absent").debian_like


def test_apt_is_not_called_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise stop with one clear message that says what to install."""
    monkeypatch.setattr(host, "is_root", lambda: False)
    monkeypatch.setattr(host, "_run", lambda *_: pytest.fail("apt was called"))
    with pytest.raises(HostSetupError) as caught:
        host.apt_install(["docker.io"], pytest.fail, why="no engine")
    assert caught.value.hint == "install docker.io and run the same command again"


def test_apt_updates_its_lists_once_and_says_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def run(command: list[str], _: object) -> int:
        called.append(command[1])
        return 1 if called == ["install"] else 0

    monkeypatch.setattr(host, "is_root", lambda: True)
    monkeypatch.setattr(host, "debian_like", lambda: True)
    monkeypatch.setattr(host, "_run", run)
    said: list[str] = []
    host.apt_install(["mmdebstrap"], said.append, why="x")
    assert called == ["install", "update", "install"]
    assert len(said) == 1


@pytest.mark.parametrize(
    ("name", "kind", "standin"),
    [
        ("assize/base:1", "debian", False),
        ("assize/base-trixie:1", "debian", False),
        ("python:3.12-slim", "debian", True),
        ("python:3.11-slim-bookworm", "debian", True),
        ("python:3.13", "debian", True),
        ("debian:bookworm-slim", "debian", True),
        ("ubuntu:24.04", "debian", True),
        ("registry.example/astral-sh/uv:0.8.15", "wheel", True),
    ],
)
def test_recipes_cover_the_names_they_should(name: str, kind: str, standin: bool) -> None:
    recipe = find_recipe(name, load_recipes())
    assert recipe is not None
    assert (recipe.kind, recipe.standin) == (kind, standin)


@pytest.mark.parametrize(
    "name", ["python:2.7", "alpine:3", "assize/base:2", "other/debian:12", f"python@sha256:{'0' * 64}"]
)
def test_other_names_have_no_recipe(name: str) -> None:
    """A name pinned by digest names its bytes: nothing can stand in for it."""
    assert find_recipe(name, load_recipes()) is None


def test_recipe_digest_depends_on_content_and_origin_only() -> None:
    recipes = load_recipes()
    slim = find_recipe("python:3.12-slim", recipes)
    full = find_recipe("python:3.12", recipes)
    assert slim is not None
    assert full is not None
    assert slim.digest("a") != full.digest("a")
    assert slim.digest("a") != slim.digest("b")
    base = find_recipe("assize/base:1", recipes)
    assert base is not None and base.digest("a") == (
        "a3463fa57fc3b06c9a793822ab661b615e83afc12344f743fbf33943786588c0"
    ), "images that installations have locked would be built again"
    assert find_recipe("debian:12", recipes).digest("a") == find_recipe("ubuntu:24.04", recipes).digest("a")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        'match="a"\nkind="magic"',
        'match="a"\nkind="debian"\npackages=["a; rm -rf /"]',
        'match="a"\nkind="wheel"',
        'match="a"\nkind="debian"\nuser="a b"',
        'match="a"\nkind="debian"\nsuite="../x"',
        'match="a"\nkind="wheel"\nwheel="uv"\nsuite="trixie"',
        'match="a"\nkind="debian"\nunknown=1',
    ],
)
def test_bad_recipes_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "recipes.toml"
    path.write_text(f"[[recipe]]\n{text}\n")
    with pytest.raises(RecipeError):
        load_recipes(path)


def test_our_recipe_file_names_no_registry_host() -> None:
    names = [
        line.split('"')[1]
        for line in RECIPES.read_text().splitlines()
        if line.startswith(("match", "registry"))
    ]
    assert names
    assert not any("." in name.partition("/")[0] for name in names if "/" in name)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("debian", "debian:latest"),
        ("docker.io/library/debian:12", "debian:12"),
        ("h:5000/a", "h:5000/a:latest"),
        ("a/b:1", "a/b:1"),
        ("a@sha256:0", "a@sha256:0"),
    ],
)
def test_canonical_names(written: str, canonical: str) -> None:
    assert canonical_name(written) == canonical


def test_split_names() -> None:
    assert split_name("h:5000/a/b:1") == ("h:5000/a/b", "1")
    assert split_name("h:5000/a@sha256:0") == ("h:5000/a", "sha256:0")
    assert split_name("a:1@sha256:0") == ("a", "sha256:0")
    assert [registry_of(name) for name in ("a:1", "a/b:1", "h.example/a:1", "localhost/a:1")] == [
        "default",
        "default",
        "h.example",
        "localhost",
    ]


def test_refusals_are_remembered_per_name_or_per_registry(tmp_path: Path) -> None:
    """A registry nobody reaches is asked once an hour, a missing name once a day; others stay open."""
    refused = Refusals(tmp_path / "registry.json")
    refused.remember("h.example/a:1", "manifest unknown", 1000.0)
    assert refused.recall("h.example/a:1", 1001.0) == "manifest unknown"
    assert refused.recall("h.example/b:1", 1001.0) is None
    refused.remember("debian:12", "dial tcp: no such host", 1000.0)
    assert refused.recall("ubuntu:24.04", 1001.0) == "dial tcp: no such host"
    assert refused.recall("ubuntu:24.04", 1000.0 + 3601) is None
    assert refused.recall("h.example/a:1", 1000.0 + 86401) is None
    refused.path.write_text("{broken")
    assert refused.recall("ubuntu:24.04", 1001.0) is None


def test_mmdebstrap_command_leaves_a_stock_apt() -> None:
    """Options for the build itself do not stay in the image, those the mirror needs do."""
    recipe = find_recipe("assize/base:1", load_recipes())
    assert recipe is not None
    option = 'Acquire::Check-Valid-Until "false"'
    command = debian.mmdebstrap_command(recipe, "bookworm", Path("l"), Path("o"), [option])
    assert "--variant=minbase" in command
    assert command[-3:] == ["bookworm", "o", "l"]
    last = command[-4]
    assert "Install-Recommends" not in last
    assert option in last
    assert any("useradd --uid 1000 --gid 1000" in word for word in command)


@pytest.mark.parametrize(
    ("tag", "requirement"), [("0.8.15", "uv==0.8.15"), ("0.8", "uv==0.8.*"), ("latest", "uv")]
)
def test_wheel_tags(tag: str, requirement: str) -> None:
    recipe = find_recipe(f"r.example/astral-sh/uv:{tag}", load_recipes())
    assert recipe is not None
    assert wheel.wheel_requirement(recipe, tag) == requirement


def test_a_tag_that_means_a_whole_system_has_no_stand_in() -> None:
    recipe = find_recipe("r.example/astral-sh/uv:python3.12-bookworm", load_recipes())
    assert recipe is not None
    with pytest.raises(ImageUnavailableError, match="not a version"):
        wheel.wheel_requirement(recipe, "python3.12-bookworm")
