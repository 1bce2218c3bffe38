"""Errors of the engine become typed ones; what only a path inside can provoke is told apart."""

from __future__ import annotations

import json
from typing import Any

import docker.errors
import pytest
import requests
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from workers.errors import (
    ContainerGoneError,
    EngineCallError,
    ImageMissingError,
    PathRefusedError,
    WorkerError,
)
from workers.sandbox.client import translated
from workers.sandbox.container import changes_of


def api_error(explanation: str, status: int = 500, kind: Any = docker.errors.APIError) -> Exception:
    response = requests.Response()
    response.status_code = status
    error: Exception = kind("x", response=response, explanation=explanation)
    return error


def raised(call: str, error: Exception) -> EngineCallError:
    with pytest.raises(EngineCallError) as found, translated(call):
        raise error
    return found.value


@pytest.mark.parametrize(
    ("call", "explanation"),
    [
        ("changes", "lstat /var/lib/docker/x/ddd: file name too long"),
        ("get_archive", "lstat /x/" + "y" * 300 + ": file name too long"),
        ("get_archive", "lstat /x/w/file/x: not a directory"),
        ("get_archive", "evalSymlinksInScope: too many links in /var/lib/docker/x/merged/w/loop"),
        ("put_archive", "Error processing tar file(exit status 1): open /etc/motd/x: not a directory"),
        ("put_archive", "Error processing tar file(exit status 1): link /a /b: no such file or directory"),
        ("commit", "Error processing tar file(exit status 1): mknod /x/.wh.: file exists"),
    ],
)
def test_what_a_path_provokes(call: str, explanation: str) -> None:
    """Messages measured on an engine; the status is kept."""
    found = raised(call, api_error(explanation))
    assert isinstance(found, PathRefusedError) and found.status == 500


@pytest.mark.parametrize(
    ("call", "explanation"),
    [
        ("changes", "open /var/lib/docker/overlay2/x: no such file or directory"),
        ("changes", "lstat /x/file name too long/y: input/output error"),
        ("get_archive", "mount /x: no space left on device"),
        ("put_archive", "write /x/f: no space left on device"),
        ("commit", "write /x: input/output error"),
        ("start", "exec: file name too long"),
        ("create", "not a directory"),
        ("inspect", "evalSymlinksInScope: too many links in /x"),
        ("get_archive", "something about evalSymlinksInScope: too many links in /x then more"),
    ],
)
def test_what_is_the_engines_own(call: str, explanation: str) -> None:
    """A name that spells an error, another call, or trouble of the host stays the platform's."""
    assert type(raised(call, api_error(explanation))) is EngineCallError


@pytest.mark.parametrize(
    ("call", "error", "kind", "status"),
    [
        ("image", api_error("x", 404, docker.errors.ImageNotFound), ImageMissingError, 404),
        ("create", api_error("No such image: x", 404, docker.errors.NotFound), ImageMissingError, 404),
        ("create", api_error("no such network", 404, docker.errors.NotFound), ContainerGoneError, 404),
        ("inspect", api_error("No such container", 404, docker.errors.NotFound), ContainerGoneError, 404),
        ("kill", api_error("not running", 409), EngineCallError, 409),
        ("start", requests.ConnectionError("refused"), EngineCallError, None),
        ("wait", requests.ReadTimeout("120"), EngineCallError, None),
        ("get_archive", requests.exceptions.ChunkedEncodingError("cut"), EngineCallError, None),
        ("get_archive", urllib3.exceptions.ProtocolError("cut"), EngineCallError, None),
        ("exec_start", ConnectionResetError("reset"), EngineCallError, None),
        ("exec_start", TimeoutError("slow"), EngineCallError, None),
        ("connect", docker.errors.DockerException("no engine"), EngineCallError, None),
    ],
)
def test_every_failure_of_the_engine_is_typed(
    call: str, error: Exception, kind: type[EngineCallError], status: int | None
) -> None:
    """The call is named, so that the record says which one failed."""
    found = raised(call, error)
    assert (type(found), found.call, found.status) == (kind, call, status)


def test_our_own_errors_pass() -> None:
    """Nested calls are not wrapped twice, and bugs stay visible."""
    for error in (ContainerGoneError("a", "b", "c"), WorkerError("x"), KeyError("bug")):
        with pytest.raises(type(error)) as found, translated("x"):
            raise error
        assert found.value is error


def test_the_list_of_changes() -> None:
    """Kinds and paths in the engine's order; null is none; bytes that are no text were replaced by it."""
    raw = json.dumps([{"Path": "/a", "Kind": 0}, {"Kind": 1, "Path": "/b\ufffd"}]).encode()
    assert changes_of(raw) == [(0, "/a"), (1, "/b\ufffd")]
    assert changes_of(b"null\n") == [] and changes_of(b"[]") == []


@given(
    st.binary(max_size=60) | st.sampled_from([b"{}", b"5", b'"x"', b"[1]", b'[{"Path": 1}]', b"[" * 100_000])
)
def test_anything_else_is_an_engine_error(raw: bytes) -> None:
    """Also what was cut off in the middle."""
    try:
        assert all(type(kind) is int and type(path) is str for kind, path in changes_of(raw))
    except EngineCallError as error:
        assert error.call == "changes"
