"""Real builds: right files in every image, pinned bases, reuse, no network, errors that say what failed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import docker.errors
import pytest

from sandbox_images.base import BASE_IMAGE, ensure_base
from sandbox_images.build import CONTEXT_LABEL, BuildRequest, BuiltImage, build_image
from sandbox_images.context import read_context
from sandbox_images.dockerfile import parse_dockerfile
from sandbox_images.engine import connect, ensure_engine
from sandbox_images.errors import (
    BuildFailedError,
    BuildTimeoutError,
    ImageContentError,
    ImageUnavailableError,
)
from sandbox_images.lock import ImageLock
from sandbox_images.prepare import list_images, prepare_for
from sandbox_images.store import ImageStore
from sandbox_images.verify import PURPOSE, remove_leftovers, verify_contents

pytestmark = pytest.mark.docker
TEST_LABEL = {"assize.test": "images"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ImageStore]:
    """A fresh lock and cache on the real engine; images these tests build are removed afterwards."""
    client = connect(120)
    said: list[str] = []
    made = ImageStore(
        client,
        ImageLock(tmp_path / "home" / "images.lock.json"),
        tmp_path / "home" / "cache",
        said.append,
        pull=False,
    )
    yield made
    for summary in made.engine.images(filters={"label": "assize.test=images"}):
        made.engine.remove_image(summary["Id"], force=True)
    client.close()


def context(folder: Path, dockerfile: str, files: dict[str, str] | None = None) -> Path:
    folder.mkdir(parents=True)
    for name, text in {"Dockerfile": dockerfile, **(files or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return folder


def build(store: ImageStore, folder: Path, timeout_s: int = 120) -> BuiltImage:
    return build_image(store, BuildRequest(folder, labels=TEST_LABEL, timeout_s=timeout_s))


def output(store: ImageStore, image: BuiltImage, *command: str) -> str:
    host = store.client.create_host_config(network_mode="none")
    container = store.client.create_container(image.id, list(command), host_config=host, labels=TEST_LABEL)
    try:
        store.client.start(container["Id"])
        store.client.wait(container["Id"])
        return bytes(store.client.logs(container["Id"])).decode()
    finally:
        store.client.remove_container(container["Id"], force=True)


def test_two_tasks_with_same_names_sizes_and_dates_keep_their_own_files(
    store: ImageStore, tmp_path: Path
) -> None:
    """reference/harbor.md 9, the minimal case: folders of one name, files of one size and date."""
    text = f"FROM {BASE_IMAGE}\nCOPY . /tests/\n"
    one = build(store, context(tmp_path / "a" / "tests", text, {"expected.txt": "AAAA"}))
    two = build(store, context(tmp_path / "b" / "tests", text, {"expected.txt": "BBBB"}))
    assert one.id != two.id
    assert output(store, one, "cat", "/tests/expected.txt") == "AAAA"
    assert output(store, two, "cat", "/tests/expected.txt") == "BBBB"
    assert (one.verified_files, two.verified_files) == (2, 2)


def test_second_build_of_the_same_bytes_is_reused_and_other_bytes_are_not(
    store: ImageStore, tmp_path: Path
) -> None:
    """Everything prepared is reused; the label with our digest decides, not a date or a tag."""
    folder = context(tmp_path / "t", f"FROM {BASE_IMAGE}\nCOPY a /d/\n", {"a": "1"})
    first, second = build(store, folder), build(store, folder)
    assert (first.reused, second.reused) == (False, True)
    assert first.id == second.id
    (folder / "a").write_text("2")
    third = build(store, folder)
    assert not third.reused
    assert third.id != first.id
    description = store.inspect(third.id)
    assert description is not None
    assert store.labels(description)[CONTEXT_LABEL] == third.context_digest


def test_a_foreign_image_under_our_tag_is_not_reused(store: ImageStore, tmp_path: Path) -> None:
    folder = context(tmp_path / "t", f"FROM {BASE_IMAGE}\nCOPY a /d/\n", {"a": "own"})
    first = build(store, folder)
    store.client.remove_image(first.name, force=True)
    repository, _, tag = first.name.partition(":")
    base = ensure_base(store, BASE_IMAGE)
    store.client.tag(base.id, repository, tag)
    again = build(store, folder)
    assert not again.reused
    assert output(store, again, "cat", "/d/a") == "own"


def test_the_image_holds_the_context_and_nothing_of_the_build(store: ImageStore, tmp_path: Path) -> None:
    """`COPY .` must bring the task's own Dockerfile, not the one that was sent, nor our ignore file."""
    text = f"FROM {BASE_IMAGE}\nCOPY . /t/\n"
    image = build(
        store, context(tmp_path / "t", text, {".dockerignore": "secret\n", "secret": "x", "s.sh": "y"})
    )
    assert output(store, image, "ls", "-A", "/t").split() == ["Dockerfile", "s.sh"]
    assert output(store, image, "cat", "/t/Dockerfile") == text


def test_stages_and_the_locked_base(store: ImageStore, tmp_path: Path) -> None:
    """The base is locked by Id and the build starts from that Id."""
    text = (
        f"ARG B={BASE_IMAGE}\nFROM $B AS one\nRUN echo made > /made\nFROM $B\nCOPY --from=one /made /made\n"
    )
    image = build(store, context(tmp_path / "t", text))
    assert output(store, image, "cat", "/made") == "made\n"
    (base,) = image.bases
    locked = store.lock.get(BASE_IMAGE)
    assert locked is not None
    assert base.id == locked.id
    assert image.standins == ()
    base_description, description = store.inspect(base.id), store.inspect(image.id)
    assert base_description is not None
    assert description is not None
    layers = base_description["RootFS"]["Layers"]
    assert description["RootFS"]["Layers"][: len(layers)] == layers


def test_a_build_that_fetches_nothing_has_no_network(store: ImageStore, tmp_path: Path) -> None:
    image = build(store, context(tmp_path / "t", f"FROM {BASE_IMAGE}\nRUN ls /sys/class/net > /nets\n"))
    assert output(store, image, "cat", "/nets").split() == ["lo"]


def test_a_failing_step_is_reported_with_its_output(store: ImageStore, tmp_path: Path) -> None:
    folder = context(
        tmp_path / "task-x" / "environment", f"FROM {BASE_IMAGE}\nRUN echo no such tool && exit 7\n"
    )
    with pytest.raises(BuildFailedError) as caught:
        build(store, folder)
    assert "task-x/environment" in caught.value.message
    assert "no such tool" in caught.value.message
    assert "7" in caught.value.message


def test_a_build_over_its_time_is_stopped_in_the_engine(store: ImageStore, tmp_path: Path) -> None:
    """The deadline ends the build, not only our waiting: no container of it stays."""
    folder = context(tmp_path / "t", f"FROM {BASE_IMAGE}\nRUN sleep 7349\n")
    with pytest.raises(BuildTimeoutError):
        build(store, folder, timeout_s=2)
    deadline = time.monotonic() + 60
    while any("sleep 7349" in str(c["Command"]) for c in store.client.containers(all=True)):
        assert time.monotonic() < deadline, "the build's container is still there"
        time.sleep(0.1)


def test_an_image_nobody_has_is_named(store: ImageStore, tmp_path: Path) -> None:
    with pytest.raises(ImageUnavailableError, match=r"no-such/thing:9"):
        build(store, context(tmp_path / "t", "FROM no-such/thing:9\n"))


def test_other_bytes_in_the_image_are_found(store: ImageStore, tmp_path: Path) -> None:
    """The check of a built image can fail: hold it against a context with one other byte."""
    text = f"FROM {BASE_IMAGE}\nCOPY . /tests/\n"
    image = build(store, context(tmp_path / "a", text, {"x": "1"}))
    other = context(tmp_path / "b", text, {"x": "2"})
    with pytest.raises(ImageContentError, match="/tests/x"):
        verify_contents(store, image.id, read_context(other), parse_dockerfile(text))
    missing = context(tmp_path / "c", text, {"x": "1", "y": "3"})
    with pytest.raises(ImageContentError, match="/tests/y"):
        verify_contents(store, image.id, read_context(missing), parse_dockerfile(text))


def test_prepare_and_list(store: ImageStore, tmp_path: Path) -> None:
    folder = context(tmp_path / "t", f"FROM {BASE_IMAGE}\nCOPY a /d/\n", {"a": hashlib.sha256().hexdigest()})
    prepared = prepare_for(store, [BASE_IMAGE, BuildRequest(folder, labels=TEST_LABEL)])
    assert [image.name for image in prepared] == [BASE_IMAGE, prepared[1].name]
    listed = {image.name: image for image in list_images(store)}
    assert {image.name: image.id for image in prepared} == {name: image.id for name, image in listed.items()}
    assert all(image.present and image.size_bytes > 0 for image in listed.values())


def test_a_check_that_was_killed_leaves_nothing_for_long(store: ImageStore) -> None:
    """Labels on every object: what a `kill -9` left is removed once it cannot be in use any more."""
    base = ensure_base(store, BASE_IMAGE)
    made = store.client.create_container(base.id, ["true"], labels=dict([PURPOSE]))
    try:
        assert remove_leftovers(store, time.time()) == 0
        assert remove_leftovers(store, time.time() + 3600) == 1
        assert made["Id"] not in {c["Id"] for c in store.client.containers(all=True)}
    finally:
        with contextlib.suppress(docker.errors.NotFound):
            store.client.remove_container(made["Id"], force=True)


def test_an_engine_that_answers_is_left_alone(tmp_path: Path) -> None:
    """Issue 2, set-up: never restart an engine that answers; nothing is said, nothing is written."""
    ensure_engine(pytest.fail, tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_the_base_image_is_what_the_packs_may_rely_on(store: ImageStore, tmp_path: Path) -> None:
    """User agent 1000, the tools of the recipe, no package lists, and no CA but the distribution's."""
    script = (
        "id -u agent; id -g agent; ls -d /home/agent; find /var/lib/apt/lists -type f -size +0 | wc -l;"
        " ls /usr/local/share/ca-certificates; python3 -c 'import pytest';"
        " diff <(grep -c BEGIN /etc/ssl/certs/ca-certificates.crt)"
        " <(ls /usr/share/ca-certificates/mozilla | wc -l);"
        " for tool in bash gawk diff patch make gcc git python3 node sqlite3 jq ps; do"
        " command -v $tool >/dev/null || echo no $tool; done"
    )
    image = build(store, context(tmp_path / "t", f"FROM {BASE_IMAGE}\n"))
    assert output(store, image, "bash", "-c", script).split() == ["1000", "1000", "/home/agent", "0"]
