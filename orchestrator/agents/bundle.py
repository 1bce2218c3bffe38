"""Agent bundles: a folder pinned by its MANIFEST, delivered as a deterministic tar (reference/agents.md 4).

A MANIFEST line is `type mode size sha256 path`, for a link followed by ` -> target`; type is `f` or `l`,
mode is `x` or `-`, and lines are sorted by path. The bundle's digest is the SHA-256 of that text. Owners,
times and other mode bits do not count; empty folders are not kept. A file called MANIFEST at the root is
the manifest itself and must be right.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal

from orchestrator.agents.errors import BundleError, listed
from orchestrator.packs.tree import link_target_inside

MANIFEST_NAME: Final = "MANIFEST"
_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class BundleEntry:
    """One file (`f`) or symbolic link (`l`); for a link size and SHA-256 are those of the target text."""

    type: Literal["f", "l"]
    executable: bool
    bytes: int
    sha256: str
    path: str
    target: str | None = None

    def line(self) -> str:
        """The entry's line in MANIFEST."""
        mode = "x" if self.executable else "-"
        arrow = "" if self.target is None else f" -> {self.target}"
        return f"{self.type} {mode} {self.bytes} {self.sha256} {self.path}{arrow}\n"


@dataclass(frozen=True)
class BundleManifest:
    """All entries of a bundle, sorted by path (UTF-8 bytes)."""

    entries: tuple[BundleEntry, ...]

    @classmethod
    def of(cls, entries: Iterable[BundleEntry]) -> BundleManifest:
        """A manifest of `entries`; the order given does not matter."""
        return cls(tuple(sorted(entries, key=lambda entry: entry.path.encode())))

    @property
    def text(self) -> str:
        """The text of MANIFEST."""
        return "".join(entry.line() for entry in self.entries)

    @property
    def digest(self) -> str:
        """SHA-256 of the text, 64 hex digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def total_bytes(self) -> int:
        """Sum of all file sizes."""
        return sum(entry.bytes for entry in self.entries if entry.type == "f")

    def get(self, path: str) -> BundleEntry | None:
        """The entry at `path`."""
        return next((entry for entry in self.entries if entry.path == path), None)


def _plain(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return text.isprintable() and " -> " not in text


def _link_entry(path: str, target: str) -> BundleEntry:
    raw = target.encode()
    return BundleEntry("l", False, len(raw), hashlib.sha256(raw).hexdigest(), path, target)


def _read_entry(root: Path, path: Path, shown: str) -> BundleEntry:
    info = path.lstat()
    if stat.S_ISLNK(info.st_mode):
        target = os.readlink(path)
        if not _plain(target) or not link_target_inside(root, path, target):
            raise BundleError(f"{shown}: the link to {target!r} leaves the bundle")
        return _link_entry(shown, target)
    if not stat.S_ISREG(info.st_mode):
        raise BundleError(f"{shown}: neither a file, a folder nor a link")
    if info.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise BundleError(f"{shown}: set-user-id and set-group-id files are refused")
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        size = os.fstat(stream.fileno()).st_size
    return BundleEntry("f", bool(info.st_mode & stat.S_IXUSR), size, sha256, shown)


def _paths(root: Path) -> Iterable[Path]:
    pending = [root]
    while pending:
        with os.scandir(pending.pop()) as items:
            for item in items:
                if item.is_dir(follow_symlinks=False):
                    pending.append(Path(item.path))
                else:
                    yield Path(item.path)


def read_bundle(root: Path) -> BundleManifest:
    """Read and check a bundle folder; `BundleError` lists every entry that cannot be pinned."""
    if not root.is_dir():
        raise BundleError(f"bundle {root}: not a folder")
    entries: list[BundleEntry] = []
    problems: list[str] = []
    stated: Path | None = None
    for path in _paths(root):
        shown = path.relative_to(root).as_posix()
        try:
            if not _plain(shown):
                raise BundleError(f"{shown.encode('utf-8', 'backslashreplace')!r}: not a plain file name")
            if shown == MANIFEST_NAME and path.is_file() and not path.is_symlink():
                stated = path
                continue
            entries.append(_read_entry(root, path, shown))
        except OSError as error:
            problems.append(f"{shown}: cannot be read ({error.strerror})")
        except BundleError as error:
            problems.append(error.message)
    manifest = BundleManifest.of(entries)
    if not entries and not problems:
        problems.append("the folder is empty")
    if stated is not None and not problems and stated.read_bytes() != manifest.text.encode():
        problems.append(f"its {MANIFEST_NAME} does not describe its files")
    if problems:
        raise BundleError(listed(f"bundle {root}", sorted(problems)))
    return manifest


class _HashingReader:
    """Passes a file through to the tar writer while hashing it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.hash.update(data)
        return data


def _member(name: str, mode: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    """A header with nothing of this machine in it: owner root, time 0."""
    info = tarfile.TarInfo(name)
    info.type = kind
    info.mode = mode
    return info


def _add_parents(tar: tarfile.TarFile, path: str, done: set[str]) -> None:
    parts = path.split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        folder = "/".join(parts[:depth])
        if folder not in done:
            done.add(folder)
            tar.addfile(_member(folder, 0o755, tarfile.DIRTYPE))


def _add_file(tar: tarfile.TarFile, root: Path, entry: BundleEntry) -> None:
    info = _member(entry.path, 0o755 if entry.executable else 0o644)
    info.size = entry.bytes
    with (root / entry.path).open("rb") as stream:
        reader = _HashingReader(stream)
        try:
            tar.addfile(info, reader)
        except OSError as error:
            raise BundleError(f"bundle {root}: {entry.path} changed while it was read ({error})") from None
        if reader.hash.hexdigest() != entry.sha256 or stream.read(1):
            raise BundleError(f"bundle {root}: {entry.path} changed while it was read")


def write_bundle_tar(root: Path, out: IO[bytes], *, with_manifest: bool = True) -> BundleManifest:
    """Write the bundle in `root` to `out` as one uncompressed tar and return its manifest.

    The bytes depend on the manifest alone: MANIFEST first (if wanted), then the entries by path with their
    folders before them, owner 0, time 0, modes 0755 and 0644. Each file is hashed again while it is written.
    """
    manifest = read_bundle(root)
    text = manifest.text.encode()
    done: set[str] = set()
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        if with_manifest:
            info = _member(MANIFEST_NAME, 0o644)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
        for entry in manifest.entries:
            _add_parents(tar, entry.path, done)
            if entry.type == "f":
                _add_file(tar, root, entry)
            else:
                link = _member(entry.path, 0o777, tarfile.SYMTYPE)
                link.linkname = entry.target or ""
                tar.addfile(link)
    return manifest


def _copy_file(source: Path, target: Path, entry: BundleEntry) -> bool:
    """Copy one file; whether it was what the entry says."""
    digest = hashlib.sha256()
    with source.open("rb") as stream, target.open("xb") as out:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            out.write(chunk)
        os.fchmod(out.fileno(), 0o755 if entry.executable else 0o644)
    os.utime(target, (0, 0))
    return digest.hexdigest() == entry.sha256


def copy_bundle(root: Path, manifest: BundleManifest, target: Path) -> None:
    """Copy what `manifest` names from `root` into the empty folder `target`, and MANIFEST with it.

    Times are 0, modes 0755 and 0644, as in the tar. `BundleError` when a file is not what the manifest says.
    """
    for entry in manifest.entries:
        path = target / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.target is not None:
            path.symlink_to(entry.target)
            continue
        try:
            same = _copy_file(root / entry.path, path, entry)
        except FileNotFoundError:
            same = False
        if not same:
            raise BundleError(f"bundle {root}: {entry.path} changed while it was read")
    (target / MANIFEST_NAME).write_text(manifest.text, "utf-8", newline="")


def _hash_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    stream = tar.extractfile(member)
    if stream is None:
        raise BundleError(f"{member.name}: has no content")
    digest = hashlib.sha256()
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def manifest_of_tar(source: IO[bytes], *, top: str = "") -> BundleManifest:
    """What a tar stream of a delivered bundle holds, for comparison with the registered digest.

    `top` is a leading folder to drop from the names (the engine's archive call adds one). MANIFEST itself
    and folders are left out. `BundleError` for anything but files, folders and links.
    """
    entries: list[BundleEntry] = []
    prefix = f"{top}/" if top else ""
    try:
        with tarfile.open(fileobj=source, mode="r|") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if not member.isdir() and not name.startswith(prefix):
                    raise BundleError(f"{member.name}: outside of {top}")
                path = name.removeprefix(prefix)
                if member.isdir() or path == MANIFEST_NAME:
                    continue
                if member.issym():
                    entries.append(_link_entry(path, member.linkname))
                elif member.isreg() and not member.mode & 0o6000:
                    sha256 = _hash_member(tar, member)
                    entries.append(BundleEntry("f", bool(member.mode & 0o100), member.size, sha256, path))
                else:
                    raise BundleError(f"{path}: neither a plain file, a folder nor a link")
    except tarfile.TarError as error:
        raise BundleError(f"not a readable tar: {error}") from None
    return BundleManifest.of(entries)
