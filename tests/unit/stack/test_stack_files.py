"""Secrets and settings of a stack: drawn once, readable where they must be, plain for Compose."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

import pytest

from orchestrator.errors import UsageError
from orchestrator.ledger.db import parse_url
from orchestrator.stack.secret_files import ACL, ADDED, FILES, FLOWER_URL, drawn, write_secrets
from orchestrator.stack.settings_file import merged, write_settings


def test_secrets_are_drawn_once(tmp_path: Path) -> None:
    """A second run keeps them: the databases were initialised with the first."""
    folder = tmp_path / "secrets"
    assert write_secrets(folder) == FILES
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    assert set(before) == set(FILES)
    assert write_secrets(folder) == ()
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


def test_half_a_set_of_secrets_is_refused(tmp_path: Path) -> None:
    """New ones would not open what knows the old; nothing is drawn beside them."""
    folder = tmp_path / "secrets"
    write_secrets(folder)
    (folder / "broker_url").unlink()
    with pytest.raises(UsageError, match="some secrets"):
        write_secrets(folder)
    assert not (folder / "broker_url").exists()


def of_before(folder: Path) -> dict[str, bytes]:
    """The secrets of a stack that was made before there was Flower."""
    write_secrets(folder)
    for name in ADDED:
        (folder / name).unlink()
    users = [one for one in (folder / ACL).read_text().splitlines() if not one.startswith("user flower ")]
    (folder / ACL).chmod(0o600)
    (folder / ACL).write_text("\n".join(users) + "\n")
    (folder / ACL).chmod(0o444)
    return {one.name: one.read_bytes() for one in folder.iterdir()}


def test_a_stack_of_before_gets_what_flower_needs(tmp_path: Path) -> None:
    """An update of the clone keeps every secret; the broker learns one user more, whose URL is written."""
    before = of_before(tmp_path / "secrets")
    assert set(write_secrets(tmp_path / "secrets")) == {*ADDED, ACL}
    after = {one.name: one.read_bytes() for one in (tmp_path / "secrets").iterdir()}
    assert {name: after[name] for name in before if name != ACL} == {
        name: text for name, text in before.items() if name != ACL
    }
    assert after[ACL].startswith(before[ACL]) and after[ACL].count(b"user flower on") == 1
    assert known(tmp_path / "secrets")
    assert {stat.S_IMODE((tmp_path / "secrets" / name).stat().st_mode) for name in (*ADDED, ACL)} == {0o444}
    assert write_secrets(tmp_path / "secrets") == ()


def test_half_of_what_flower_needs_is_mended(tmp_path: Path) -> None:
    """Stopped between two files: the next run does the rest, and the broker knows the password of the URL."""
    folder = tmp_path / "secrets"
    for gone in (FLOWER_URL, "flower_password"):
        write_secrets(folder)
        (folder / gone).unlink()
        assert gone in write_secrets(folder)
        assert known(folder) and (folder / ACL).read_text().count("user flower on") == 1


def known(folder: Path) -> bool:
    """Whether the list of users has the password that is in Flower's URL."""
    password = (folder / FLOWER_URL).read_text().partition("flower:")[2].partition("@")[0]
    return hashlib.sha256(password.encode()).hexdigest() in (folder / ACL).read_text()


def test_the_folder_is_closed_and_the_files_can_be_mounted(tmp_path: Path) -> None:
    """A server in a container is another user; the passphrase is refused unless it is its owner's alone."""
    folder = tmp_path / "new" / "secrets"
    write_secrets(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()}
    assert modes.pop("key_passphrase") == 0o400
    assert set(modes.values()) == {0o444}


def test_a_folder_of_the_operator_is_taken_as_it_is_or_not_at_all(tmp_path: Path) -> None:
    """Its mode is never changed: what else is there would be closed to its readers."""
    folder = tmp_path / "etc"
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(UsageError, match="open to other users") as caught:
        write_secrets(folder)
    assert caught.value.hint is not None and f"chmod 0700 {folder}" in caught.value.hint
    (folder / "hosts").touch()
    with pytest.raises(UsageError, match="holds other files and no secrets"):
        write_secrets(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755 and len(list(folder.iterdir())) == 1
    with pytest.raises(UsageError, match="is no folder"):
        write_secrets(folder / "hosts")
    (folder / "hosts").unlink()
    folder.chmod(0o700)
    assert write_secrets(folder) == FILES
    (folder / "openai").touch()
    folder.chmod(0o750)
    assert write_secrets(folder) == () and stat.S_IMODE(folder.stat().st_mode) == 0o750


def test_the_parts_of_a_secret_agree() -> None:
    """URLs and servers have the same passwords, no two drawings have one in common."""
    first, second = drawn(), drawn()
    owner, worker = parse_url(first["database_url"]), parse_url(first["worker_database_url"])
    assert (owner.username, owner.password) == ("assize_owner", first["database_owner_password"])
    assert (worker.username, worker.password) == ("assize_worker", first["database_worker_password"])
    password = first["redis_password"]
    assert first["broker_url"] == f"redis://assize:{password}@redis:6379/0"
    assert f"#{hashlib.sha256(password.encode()).hexdigest()}" in first["redis_acl"]
    assert password not in first["redis_acl"] and first["redis_acl"].startswith("user default off\n")
    assert not set(first.values()) & set(second.values())
    assert all(len(first[name]) >= 40 for name in FILES)


def test_settings_are_put_in_their_places() -> None:
    """Lines of the operator stay; a second line of one name, which would win, goes."""
    text = "# mine\nASSIZE_SLOTS=8\nASSIZE_IMAGE=old\nASSIZE_IMAGE=older\n"
    assert merged(text, {"ASSIZE_IMAGE": "sha256:1", "ASSIZE_SECRETS": "/s"}) == (
        "# mine\nASSIZE_SLOTS=8\nASSIZE_IMAGE=sha256:1\nASSIZE_SECRETS=/s\n"
    )


def test_settings_say_whether_they_changed(tmp_path: Path) -> None:
    path = tmp_path / "env"
    assert write_settings(path, {"A_B": "1"}) is True
    assert write_settings(path, {"A_B": "1"}) is False
    assert path.read_text() == "A_B=1\n"


@pytest.mark.parametrize("value", ["", "with space", "$HOME/x", "a#b", "'q'", "a\nB=1"])
def test_what_compose_would_read_otherwise_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(UsageError, match="choose a plainer path"):
        write_settings(tmp_path / "env", {"ASSIZE_SECRETS": value})
    assert not (tmp_path / "env").exists()
