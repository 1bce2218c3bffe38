"""The set-up of the tests' servers: installs programs, starts no service, and says what it does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandbox_images import services
from sandbox_images.errors import HostSetupError
from sandbox_images.services import Service, ensure_services, nothing_starts


def missing(package: str) -> Service:
    return Service(package, f"{package}.service", lambda: False)


def present(package: str) -> Service:
    return Service(package, f"{package}.service", lambda: True)


def test_what_is_there_is_not_installed() -> None:
    """Nothing to do is nothing done, and nothing said."""

    def install(*_args: object, **_named: object) -> None:
        raise AssertionError("installed although it is there")

    ensure_services(pytest.fail, [present("redis-server")], install)


def test_only_the_missing_is_installed_while_nothing_may_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's policy file refuses every start during the installation and is gone after it."""
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(services, "nothing_starts", lambda: nothing_starts(policy))
    monkeypatch.setattr(services, "_not_at_boot", lambda units: seen.append(list(units)))
    seen: list[object] = []

    def install(packages: list[str], say: object, *, why: str) -> None:
        seen.append((packages, subprocess.run([str(policy)], check=False).returncode))
        assert "none is started" in why

    ensure_services(pytest.fail, [missing("postgresql"), present("redis-server")], install)
    assert seen == [(["postgresql"], 101), ["postgresql.service"]]
    assert not policy.exists()


def test_a_policy_of_the_host_stays(tmp_path: Path) -> None:
    """A file that was there before is neither changed nor removed."""
    policy = tmp_path / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 0\n")
    with nothing_starts(policy):
        assert policy.read_text() == "#!/bin/sh\nexit 0\n"
    assert policy.exists()


def test_a_failed_installation_leaves_no_policy(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with pytest.raises(HostSetupError), nothing_starts(policy):
        raise HostSetupError("apt-get could not install postgresql")
    assert not policy.exists()


def test_make_test_and_make_bench_ask_for_them_and_make_demo_does_not() -> None:
    """Only tests and benches need servers: a first screening must not wait for them."""
    text = (Path(__file__).parents[3] / "Makefile").read_text(encoding="utf-8")
    needs = {
        line.partition(":")[0]: line.partition(":")[2].split() for line in text.splitlines() if ":" in line
    }
    assert "services" in needs["test"] and "services" in needs["bench"]
    assert "services" not in needs["demo"] + needs["setup"]


def test_they_are_found_on_this_machine() -> None:
    """`make test` has installed them before this test runs."""
    assert [service.package for service in services.SERVICES if not service.present()] == []
