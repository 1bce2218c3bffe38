"""A home keeps every version of its trust root, follows new ones while it runs, and never goes back."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from orchestrator.certificates import trust
from orchestrator.custody import publishing, steps
from orchestrator.custody.errors import CustodyError, RootRollbackError
from orchestrator.custody.roots import RootStore
from orchestrator.screenings.installation import Installation
from orchestrator.verification.errors import VerificationError
from tests.assets.services.databases import copy_home


def publish_renewal(lab: Any) -> trust.TrustRoot:
    steps.ceremony(lab.custodian(), [], None, issuer="unused")
    root: trust.TrustRoot = lab.publish()
    return root


def store(lab: Any) -> RootStore:
    return RootStore.of(lab.home)


def test_every_version_is_kept_and_the_newest_is_used(lab: Any) -> None:
    """Version 1 stays the file that readers pinned; the later ones are its chain."""
    pinned = lab.home.trust_root.read_bytes()
    for version in (2, 3):
        assert publish_renewal(lab).version == version
    assert lab.home.trust_root.read_bytes() == pinned
    assert [path.name for path in store(lab).files()] == [
        "trust-root.json",
        "trust-root.2.json",
        "trust-root.3.json",
    ]
    assert trust.follow_all(trust.parse(pinned), store(lab).chain()).sha256 == store(lab).current().sha256
    installation = Installation.open(lab.home)
    assert installation.trust_root().version == 3
    installation.close()


def test_a_published_version_is_followed_without_a_restart(lab: Any) -> None:
    """A program that has read version 1 sees version 2 when it looks again."""
    running = store(lab)
    assert running.current().version == 1
    publish_renewal(lab)
    assert running.current().version == 2


def test_a_running_program_does_not_go_back(lab: Any) -> None:
    """Files that vanish under it change nothing of what it knows."""
    publish_renewal(lab)
    running = store(lab)
    assert running.current().version == 2
    running.path(2).unlink()
    assert running.current().version == 2


def test_rollback_of_the_home_is_refused(lab: Any) -> None:
    """Row 45 for the home's own trust root: the newest file removed, or replaced by another successor."""
    twin = copy_home(lab.home.root, lab.home.root.with_name("twin")).root
    publish_renewal(lab)
    path = store(lab).path(2)
    kept = path.read_bytes()
    path.unlink()
    with pytest.raises(RootRollbackError, match="version 1, but version 2 was in use") as caught:
        store(lab).current()
    assert caught.value.hint and "restore trust-root.2.json" in caught.value.hint
    other = type(lab)(twin, lab.pack)
    steps.rotate(other.custodian(), at=3)
    other.publish()
    shutil.copy(twin / "trust-root.2.json", path)
    with pytest.raises(RootRollbackError, match="not the one that was in use"):
        store(lab).current()
    path.write_bytes(kept)
    assert store(lab).current().version == 2


def test_a_missing_version_in_between_is_named(lab: Any) -> None:
    """Nothing is skipped."""
    publish_renewal(lab)
    publish_renewal(lab)
    store(lab).path(2).unlink()
    with pytest.raises(CustodyError, match="version 2 of the trust root is missing"):
        store(lab).current()


def test_a_file_that_does_not_follow_stops_the_home(lab: Any) -> None:
    """A version that somebody put there is not ignored: what the lab signs under is not a guess."""
    store(lab).path(2).write_bytes(b"{}")
    with pytest.raises(VerificationError):
        store(lab).current()


def test_publishing_the_same_bytes_again_is_harmless(lab: Any) -> None:
    """And a version is never replaced."""
    publish_renewal(lab)
    raw = store(lab).raw(2)
    assert store(lab).publish(raw).version == 2
    with pytest.raises(VerificationError):
        store(lab).publish(store(lab).raw(1))
    assert store(lab).raw(2) == raw


def test_what_was_in_use_is_remembered_by_the_first_signer(lab: Any) -> None:
    """A home of old has no memory; using it makes one. A damaged one is not overwritten."""
    seen = lab.home.keys / "trust-root.seen"
    seen.unlink()
    assert store(lab).current().version == 1
    installation = Installation.open(lab.home)
    installation.trust_root()
    installation.close()
    assert seen.exists()
    seen.write_bytes(b"?")
    with pytest.raises(CustodyError, match=r"trust-root\.seen cannot be read"):
        store(lab).current()


def test_a_version_that_no_key_here_could_sign_under_is_not_published(lab: Any) -> None:
    """The home would be of no use after it; the draft stays."""
    custodian = lab.custodian()
    steps.ceremony(custodian, [], None, issuer="unused")
    publishing.sign_here(custodian)
    for path in lab.home.keys.glob("certificate.pem"):
        path.rename(lab.home.root / "elsewhere")
    with pytest.raises(CustodyError, match="nothing could be signed under it"):
        publishing.publish(lab.custodian())
    assert lab.newest.version == 1 and lab.custodian().draft() is not None
