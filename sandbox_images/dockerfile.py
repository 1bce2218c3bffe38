"""Read a Dockerfile as far as building it faithfully needs: which images, which steps, what is beyond us.

The classic builder behind the Docker SDK is used (no frontend is downloaded, no stale context, see
`context`). What only BuildKit can do is refused by name, not left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .errors import DockerfileError

_DIRECTIVE = re.compile(r"^#\s*([a-zA-Z]+)\s*=\s*(\S+)\s*$")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?:(:?[-+?])([^}]*)|([^}]+))?\}|([A-Za-z_]\w*))")
_HEREDOC = re.compile(r"(?:^|\s)\d*<<-?[\"']?[A-Za-z_]\w*")
_BUILDKIT_FLAGS = {
    "RUN": ("mount", "network", "security", "device"),
    "COPY": ("link", "chmod", "parents", "exclude"),
    "ADD": ("link", "chmod", "checksum", "keep-git-dir", "exclude", "unpack"),
}
_PACKAGES = re.compile(
    r"(?<![\w./-])(?:apt|apt-get|aptitude|pip[\d.]*|pipx|uvx?|poetry|conda|npm|npx|yarn|pnpm|cargo|go|gem|bundle"
    r"|apk|dnf|yum|curl|wget|git)(?![\w./-])"
)
_PYTHON_PACKAGES = re.compile(r"(?<![\w./-])(?:pip[\d.]*|pipx|uvx?|poetry)(?![\w.-])")


@dataclass(frozen=True)
class Instruction:
    """One instruction. `first`, `last`: its lines, 0-based, inclusive; `text`: lines joined, no keyword."""

    keyword: str
    text: str
    first: int
    last: int

    @property
    def flags(self) -> dict[str, str]:
        """Leading `--name=value` words."""
        found: dict[str, str] = {}
        for word in self.text.split():
            if not word.startswith("--"):
                break
            name, _, value = word[2:].partition("=")
            found[name] = value
        return found

    @property
    def words(self) -> list[str]:
        """The words after the flags."""
        words = self.text.split()
        while words and words[0].startswith("--"):
            words.pop(0)
        return words


@dataclass(frozen=True)
class ImageUse:
    """An image name at `line` (0-based): `FROM` or `COPY --from`; `written` is how it stands in the file."""

    line: int
    keyword: str
    written: str
    name: str


@dataclass(frozen=True)
class Dockerfile:
    """A parsed Dockerfile; `images` in order of appearance, stage names and `scratch` left out."""

    lines: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    images: tuple[ImageUse, ...]
    platforms: tuple[str, ...]

    @property
    def base_names(self) -> tuple[str, ...]:
        """Each image name once, in order of appearance."""
        return tuple(dict.fromkeys(use.name for use in self.images))

    @property
    def needs_network(self) -> bool:
        """Whether a RUN step calls a program that fetches packages or files."""
        return self._runs(_PACKAGES)

    @property
    def needs_python_packages(self) -> bool:
        """Whether a RUN step calls pip, uv or a tool on top of them."""
        return self._runs(_PYTHON_PACKAGES)

    def _runs(self, pattern: re.Pattern[str]) -> bool:
        return any(i.keyword == "RUN" and pattern.search(i.text) for i in self.instructions)

    def final_stage(self) -> tuple[Instruction, ...]:
        """The instructions after the last FROM."""
        starts = [n for n, i in enumerate(self.instructions) if i.keyword == "FROM"]
        return self.instructions[starts[-1] + 1 :]

    def rewrite(self, ids: Mapping[str, str], arguments: tuple[str, ...] = ()) -> str:
        """The text with every image name replaced by its Id and `ARG` lines put after each FROM."""
        lines = list(self.lines)
        for use in self.images:
            old = f"--from={use.written}" if use.keyword == "COPY" else use.written
            new = f"--from={ids[use.name]}" if use.keyword == "COPY" else ids[use.name]
            lines[use.line] = _replace_word(lines[use.line], old, new)
        for instruction in reversed(self.instructions):
            if instruction.keyword == "FROM":
                for number in range(instruction.first, instruction.last + 1):
                    lines[number] = re.sub(r"--platform=\S+\s*", "", lines[number])
                lines[instruction.last + 1 : instruction.last + 1] = [f"ARG {name}" for name in arguments]
        return "\n".join(lines) + "\n"


def parse_dockerfile(text: str, build_args: Mapping[str, str] | None = None) -> Dockerfile:
    """Parse; `build_args` override the ARG defaults before the first FROM. DockerfileError if unreadable."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    instructions = tuple(_instructions(lines))
    images: list[ImageUse] = []
    arguments: dict[str, str] = {}
    stages: list[str] = []
    platforms: list[str] = []
    for instruction in instructions:
        _refuse_buildkit(instruction)
        if instruction.keyword == "ARG" and not stages:
            for word in instruction.words:
                name, found, default = word.partition("=")
                value = (build_args or {}).get(name, _unquote(default) if found else None)
                if value is not None:
                    arguments[name] = substitute(value, arguments, instruction.first)
        elif instruction.keyword == "FROM":
            images += _from_image(instruction, arguments, stages, lines)
            if "platform" in instruction.flags:
                platforms.append(substitute(instruction.flags["platform"], arguments, instruction.first))
        elif not stages and instruction.keyword != "ARG":
            raise DockerfileError(
                f"line {instruction.first + 1}: {instruction.keyword} before the first FROM"
            )
        elif instruction.keyword == "COPY" and "from" in instruction.flags:
            images += _copied_image(instruction, stages, lines)
    if not stages:
        raise DockerfileError("there is no FROM line")
    return Dockerfile(tuple(lines), instructions, tuple(images), tuple(platforms))


def substitute(text: str, values: Mapping[str, str], line: int) -> str:
    """Replace `$A`, `${A}`, `${A:-default}` and `${A:+other}`; DockerfileError for what has no value."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[5]
        known = values.get(name)
        if match[4] or (match[2] and "?" in match[2]):
            raise DockerfileError(
                f"line {line + 1}: {match[0]} is a form of substitution that is not supported"
            )
        if match[2]:
            filled = known is not None and (known != "" or ":" not in match[2])
            if "+" in match[2]:
                return match[3] if filled else ""
            return (known or "") if filled else match[3]
        if known is None:
            raise DockerfileError(f"line {line + 1}: {name} has no value; give the ARG a default")
        return known

    return _VARIABLE.sub(value, text)


def _instructions(lines: list[str]) -> list[Instruction]:
    escape = _escape_character(lines)
    found: list[Instruction] = []
    number = 0
    while number < len(lines):
        first = number
        if not lines[number].strip() or lines[number].lstrip().startswith("#"):
            number += 1
            continue
        parts: list[str] = []
        while number < len(lines):
            line = lines[number]
            number += 1
            # Comment and empty lines inside a continued instruction do not end it.
            if parts and (not line.strip() or line.lstrip().startswith("#")):
                continue
            stripped = line.rstrip()
            parts.append(stripped.removesuffix(escape) if stripped.endswith(escape) else line)
            if not stripped.endswith(escape):
                break
        keyword, _, rest = " ".join(part.strip() for part in parts).partition(" ")
        found.append(Instruction(keyword.upper(), rest.strip(), first, number - 1))
    return found


def _escape_character(lines: list[str]) -> str:
    for line in lines:
        match = _DIRECTIVE.match(line)
        if match is None:
            break
        if match[1].lower() == "escape":
            if match[2] not in ("\\", "`"):
                raise DockerfileError(f"unknown escape character {match[2]!r}")
            return match[2]
    return "\\"


def _refuse_buildkit(instruction: Instruction) -> None:
    where = f"line {instruction.first + 1}: {instruction.keyword}"
    for flag in instruction.flags:
        if flag in _BUILDKIT_FLAGS.get(instruction.keyword, ()):
            raise DockerfileError(f"{where} --{flag} needs BuildKit, which is not used here")
    if instruction.keyword in ("RUN", "COPY", "ADD") and _HEREDOC.search(instruction.text):
        raise DockerfileError(f"{where} with a here-document needs BuildKit, which is not used here")


def _from_image(
    instruction: Instruction, arguments: Mapping[str, str], stages: list[str], lines: list[str]
) -> list[ImageUse]:
    words = instruction.words
    if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS"):
        raise DockerfileError(f"line {instruction.first + 1}: FROM {instruction.text} cannot be read")
    name = substitute(words[0], arguments, instruction.first)
    earlier = name.lower() in stages
    stages.append(words[2].lower() if len(words) == 3 else "")
    if earlier or name == "scratch":
        return []
    return [ImageUse(_line_of(instruction, lines, words[0]), "FROM", words[0], name)]


def _copied_image(instruction: Instruction, stages: list[str], lines: list[str]) -> list[ImageUse]:
    name = instruction.flags["from"]
    if name.lower() in stages or (name.isdigit() and int(name) < len(stages) - 1):
        return []
    if "$" in name:
        raise DockerfileError(
            f"line {instruction.first + 1}: COPY --from={name}: variables are not allowed here"
        )
    return [ImageUse(_line_of(instruction, lines, f"--from={name}"), "COPY", name, name)]


def _line_of(instruction: Instruction, lines: list[str], word: str) -> int:
    for number in range(instruction.first, instruction.last + 1):
        if word in lines[number].split():
            return number
    raise DockerfileError(f"line {instruction.first + 1}: {word} cannot be found again")


def _replace_word(line: str, old: str, new: str) -> str:
    return re.sub(rf"(?<!\S){re.escape(old)}(?!\S)", lambda _: new, line, count=1)


def _unquote(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'" else text
