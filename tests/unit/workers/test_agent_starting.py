"""A command that the runtime could not start: the program's own doing, or the host's."""

from __future__ import annotations

import pytest

from workers.attempt.starting import refusal

OCI = "OCI runtime exec failed: exec failed: "


@pytest.mark.parametrize(
    ("said", "own"),
    [
        # runc 1.0 and 1.1, crun 1.8, runsc: the program is not there, or cannot be run.
        (
            OCI + 'unable to start container process: exec: "x": executable file not found in $PATH: unknown',
            True,
        ),
        (OCI + 'unable to start container process: exec: "/x": permission denied: unknown', True),
        (
            OCI
            + 'container_linux.go:380: starting container process caused: exec: "x": stat x: no such file',
            True,
        ),
        ("OCI runtime exec failed: executable file `x` not found in $PATH: No such file or directory", True),
        ('OCI runtime exec failed: error finding executable "x" in PATH [/bin]: no such file', True),
        ("OCI runtime exec failed: failed to load /x: exec format error", True),
        (OCI + "unable to start container process: exec /x: exec format error: unknown", True),
        # What no program can bring about before it runs.
        (OCI + "cannot exec in a stopped container: unknown", False),
        (OCI + "unable to start container process: error executing setns process: exit status 1", False),
        (OCI + "fork/exec /proc/self/exe: resource temporarily unavailable: unknown", False),
        (OCI + 'chdir to cwd ("/gone") set in config.json failed: no such file or directory', False),
        ("", False),
    ],
)
def test_whose_doing_it_was(said: str, own: bool) -> None:
    """Issue 6: infrastructure is never counted as the agent's, and an agent cannot pretend that it was."""
    assert refusal(f"{said}\r\n".encode()) == (said, own)


def test_words_are_cut_and_need_not_be_text() -> None:
    """They go into the sandbox report."""
    told, own = refusal(b"\xff" * 10_000)
    assert len(told) == 500 and not own
