"""Dockerfiles: every image name is found and pinned; what cannot be built faithfully is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_images.dockerfile import parse_dockerfile
from sandbox_images.errors import DockerfileError

ASSETS = Path(__file__).parents[2] / "assets" / "images" / "dockerfiles"
ID_A, ID_B = "sha256:" + "a" * 64, "sha256:" + "b" * 64

MULTI_STAGE = """\
# syntax=docker/dockerfile:1
ARG VERSION=3.12
ARG FLAVOUR=${VERSION}-slim
FROM --platform=linux/amd64 python:${FLAVOUR} AS Build
RUN echo FROM nowhere \\
    # a comment inside
    && true
FROM build AS test
COPY --from=0 /a /a
COPY --from=BUILD /b /b
FROM scratch
COPY --from=tools.example/uv:0.8 /uv /uvx /bin/
COPY --from=test /c /c
"""


def test_names_of_all_stages_are_found_and_stage_names_are_not_images() -> None:
    parsed = parse_dockerfile(MULTI_STAGE)
    assert parsed.base_names == ("python:3.12-slim", "tools.example/uv:0.8")
    assert parsed.platforms == ("linux/amd64",)


def test_rewrite_pins_every_image_by_id_and_leaves_the_rest_alone() -> None:
    """DESIGN 3: FROM is built against the locked Id, never a tag."""
    text = parse_dockerfile(MULTI_STAGE).rewrite({"python:3.12-slim": ID_A, "tools.example/uv:0.8": ID_B})
    assert text.splitlines()[3] == f"FROM {ID_A} AS Build"
    assert f"COPY --from={ID_B} /uv /uvx /bin/" in text
    for kept in ("FROM build AS test", "COPY --from=0 /a /a", "FROM scratch", "COPY --from=test /c /c"):
        assert kept in text.splitlines()


def test_arguments_are_declared_in_every_stage() -> None:
    text = parse_dockerfile("FROM a:1\nRUN pip install x\nFROM b:1\n").rewrite(
        {"a:1": ID_A, "b:1": ID_B}, ("X", "Y")
    )
    assert text.splitlines()[:7] == [
        f"FROM {ID_A}",
        "ARG X",
        "ARG Y",
        "RUN pip install x",
        f"FROM {ID_B}",
        "ARG X",
        "ARG Y",
    ]


def test_build_argument_overrides_the_default() -> None:
    text = "ARG TAG=1\nFROM debian:$TAG\n"
    assert parse_dockerfile(text).base_names == ("debian:1",)
    assert parse_dockerfile(text, {"TAG": "2"}).base_names == ("debian:2",)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("${A:-z}", "x"),
        ("${B:-z}", "z"),
        ("${E-z}", ""),
        ("${E:-z}", "z"),
        ("${A:+y}", "y"),
        ("${B+y}q", "q"),
    ],
)
def test_substitution_forms(written: str, meant: str) -> None:
    parsed = parse_dockerfile(f'ARG A=x\nARG E=""\nFROM i:{written}\n')
    assert parsed.base_names == (f"i:{meant}",)


@pytest.mark.parametrize(
    ("step", "network", "python"),
    [
        ("RUN apt-get update", True, False),
        ("RUN mkdir -p /a && chmod 755 /a", False, False),
        ("RUN pip3.11 install x", True, True),
        ("RUN uv venv /v && uv pip install x", True, True),
        ("RUN /opt/pipeline/run.sh", False, False),
        ("ENV NOTE='pip install'", False, False),
    ],
)
def test_network_is_given_only_to_steps_that_fetch(step: str, network: bool, python: bool) -> None:
    parsed = parse_dockerfile(f"FROM a:1\n{step}\n")
    assert (parsed.needs_network, parsed.needs_python_packages) == (network, python)


def test_a_here_string_and_a_shift_are_not_here_documents() -> None:
    assert parse_dockerfile(
        'FROM a:1\nRUN cat <<< "x" && echo $((1 << 3)) && echo $((1<<3))\n'
    ).base_names == ("a:1",)


def test_another_escape_character() -> None:
    parsed = parse_dockerfile("# escape=`\nFROM a:1\nRUN one `\n  two\n")
    assert parsed.instructions[-1].text == "one  two".replace("  ", " ")


EXPECTED = {
    "run-mount": "RUN --mount needs BuildKit",
    "copy-chmod": "COPY --chmod needs BuildKit",
    "copy-link": "COPY --link needs BuildKit",
    "heredoc": "RUN with a here-document needs BuildKit",
    "step-before-from": "RUN before the first FROM",
    "no-from": "there is no FROM line",
    "argument-without-value": "TAG has no value",
    "odd-substitution": "not supported",
    "from-unreadable": "cannot be read",
    "copy-from-variable": "variables are not allowed",
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_bad_dockerfiles_are_refused_with_the_reason(name: str) -> None:
    """Issue 2, pack format: what cannot run faithfully is refused by name, never downgraded."""
    with pytest.raises(DockerfileError) as caught:
        parse_dockerfile((ASSETS / f"{name}.Dockerfile").read_text())
    assert EXPECTED[name] in caught.value.message


def test_every_bad_dockerfile_has_an_expectation() -> None:
    assert {path.stem for path in ASSETS.glob("*.Dockerfile")} == set(EXPECTED)
