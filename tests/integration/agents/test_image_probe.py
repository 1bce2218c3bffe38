"""What an image has for an agent's programs: looked up in real images, none of which has to run for it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, Final

import pytest

from orchestrator.attempts import AttemptOrder
from orchestrator.ids import new_id
from scoring.vocabulary import Outcome, Reason
from workers.attempt.runner import AttemptRunner
from workers.errors import EngineCallError
from workers.sandbox import image_probe
from workers.sandbox.client import Engine
from workers.sandbox.image_probe import ImageProbe

pytestmark = pytest.mark.docker

LOADER: Final = "/lib64/ld-linux-x86-64.so.2"
SHELL: Final = {"bin/sh": b"", "usr/local/bin/bash": b""}
OLD: Final = b"\0GNU C Library (Some) stable release version 2.17, by R. M.\n"
Make = Callable[..., str]


@pytest.fixture
def image_of(engine: Engine) -> Iterator[Make]:
    """Makes an image of these files (bytes) and links (text)."""
    made: list[str] = []

    def make(files: Mapping[str, bytes | str]) -> str:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.mode = 0o755
                if isinstance(content, str):
                    info.type, info.linkname = tarfile.SYMTYPE, content
                    tar.addfile(info)
                else:
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        name = f"assize-test/probe-{new_id().lower()}"
        engine.api.import_image_from_data(buffer.getvalue(), repository=name)
        made.append(name)
        return str(engine.find_image(name)["Id"])

    yield make
    for name in made:
        engine.api.remove_image(name, force=True)


def test_a_base_image_has_what_agents_need(engine: Engine, base_image: str) -> None:
    """Programs on its PATH, and its own glibc behind the loader's link."""
    probe = ImageProbe(engine)
    assert probe.lacking(base_image, ("sh", "bash"), LOADER, "2.36") is None
    assert probe.lacking(base_image, ("sh", "tmux")) == "the image has no tmux, which the agent needs"
    said = probe.lacking(base_image, ("sh",), LOADER, "2.99")
    assert said == "the image has glibc 2.36, and the agent's programs need 2.99 or later"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (SHELL, f"the image has no glibc ({LOADER}), and the agent's programs need 2.28 or later"),
        (
            {
                **SHELL,
                "lib/ld-musl-x86_64.so.1": b"",
                "lib64/ld-linux-x86-64.so.2": "../lib/ld-musl-x86_64.so.1",
            },
            "the C library of the image is not glibc, and the agent's programs need 2.28 or later",
        ),
        (
            {**SHELL, "lib/x/ld-2.17.so": b"", "lib/x/libc.so.6": "libc-2.17.so", "lib/x/libc-2.17.so": OLD}
            | {"lib64/ld-linux-x86-64.so.2": "/lib/x/ld-2.17.so"},
            "the image has glibc 2.17, and the agent's programs need 2.28 or later",
        ),
        (
            {**SHELL, "lib64/ld-linux-x86-64.so.2": "ld-linux-x86-64.so.2"},
            f"the image has no glibc ({LOADER}), and the agent's programs need 2.28 or later",
        ),
        ({"bin/sh": b""}, "the image has no bash, which the agent needs"),
    ],
    ids=["none", "musl", "old", "loop", "no-bash"],
)
def test_what_is_missing_is_said(
    files: Mapping[str, bytes | str], said: str, engine: Engine, image_of: Make
) -> None:
    """In one sentence, from what is really there; nothing of the image was run."""
    assert ImageProbe(engine).lacking(image_of(files), ("sh", "bash"), LOADER, "2.28") == said


def test_a_helper_that_is_gone_says_nothing_of_the_image(
    engine: Engine, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody pruned it while it was looked at: no answer, and none that is kept."""
    probe = ImageProbe(engine)
    with monkeypatch.context() as patch:
        patch.setattr(image_probe, "unstarted", lambda *_: nullcontext("0" * 64))
        with pytest.raises(EngineCallError):
            probe.lacking(base_image, ("sh",))
    assert probe.lacking(base_image, ("sh",)) is None


def test_a_static_program_needs_no_library(engine: Engine, image_of: Make) -> None:
    """As codex is."""
    assert ImageProbe(engine).lacking(image_of({"bin/sh": b""}), ("sh",)) is None


def test_a_try_in_such_an_image_is_not_evaluable(
    image_of: Make,
    registered: Any,
    make_order: Callable[..., AttemptOrder],
    runner: AttemptRunner,
    control: Any,
) -> None:
    """Before a sandbox is made: no failure of the agent's, with the reason in the report."""
    agent = registered("claude-code")
    assert agent.revision.launch.libc is not None, "it was read when the agent was packed"
    order = make_order(
        "true",
        "echo 1 > /logs/verifier/reward.txt",
        agent={**agent.revision.model_dump(mode="json"), "wire": "anthropic-messages"},
        agent_image=image_of(SHELL),
    )
    report = runner(order, control)
    assert (report.decision.outcome, report.decision.reason) == (
        Outcome.NOT_EVALUABLE,
        Reason.AGENT_NOT_STARTABLE,
    )
