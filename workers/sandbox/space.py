"""Where an agent writes when its root file system is read-only: volumes of a fixed size, kept by a holder.

The workspace, the agent's HOME and output folder and `/logs` are volumes (reference/sandbox.md 1.3; HOME, as
agents keep their own transcripts there). Their content
lives as long as something has them mounted, so a container of ours, which only sleeps, has them read-only
from before the agent begins until everything is collected: the agent can be killed, and what it left stays,
frozen. Everything else that is writable is a small temporary file system that goes with the container.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orchestrator.attempts import DiskTerms
from workers.errors import ContainerGoneError, SandboxMismatchError, WorkerError
from workers.sandbox.client import Engine, translated
from workers.sandbox.container import Container
from workers.sandbox.loop import LoopDevice, file_name
from workers.sandbox.profile import Limits, create_body
from workers.sandbox.station import Station
from workers.sandbox.tars import Owner

LOGS: Final = "/logs"
SIDE_BYTES: Final = 16 << 20
SIDE_FILES: Final = 1_000
HOME_BYTES: Final = 64 << 20
"""The least that a HOME has; an agent's profile may ask for more."""
HOME_FILES: Final = 20_000
_TEMPORARY: Final = ("/tmp", "/var/tmp", "/run")
_RESERVED: Final = ("/proc", "/sys", "/dev", "/assize", "/opt/agent", "/tests", "/solution", LOGS)
_HOLDER: Final = Limits(64 << 20, 1000, 16, 0)
_MOUNT_OPTIONS: Final = "nosuid,nodev"
_HEAD_ROOM: Final = 1.05
_SPARE_FILES: Final = 64
"""A file system may round its size up."""


class SpaceError(WorkerError):
    """This attempt cannot have such a disk on this host."""


@dataclass(frozen=True)
class Place:
    """One writable folder of the sandbox: its volume, and where the host sees what is in it."""

    target: str
    volume: str
    folder: str
    device: int


def temporary_of(workdir: str) -> dict[str, str]:
    """Mount options by folder of everything writable that nobody collects."""
    small = f"rw,{_MOUNT_OPTIONS},noexec,size={SIDE_BYTES},nr_inodes={SIDE_FILES},mode=1777"
    return {place: small for place in _TEMPORARY if place != workdir}


def _require_workspace(workdir: str) -> None:
    inside = any(workdir == place or workdir.startswith(f"{place}/") for place in _RESERVED)
    if inside or workdir.strip("/") == "":
        raise SpaceError(f"{workdir} cannot be a workspace of its own under a read-only root")


class Space:
    """The places of one attempt; `remove` when its containers are gone."""

    def __init__(self, engine: Engine, mode: str, temporary: Mapping[str, str]) -> None:
        self._engine = engine
        self.mode: Final = mode
        self.temporary: Final = temporary
        self.places: list[Place] = []
        self.holder: Container | None = None
        self._volumes: list[tuple[str, str, str, int, int]] = []

    @classmethod
    def open(
        cls,
        station: Station,
        terms: DiskTerms,
        *,
        name: str,
        image: str,
        labels: Mapping[str, str],
        workdir: str,
        out: str,
        home: str,
        home_bytes: int = HOME_BYTES,
        owner: Owner,
        lifetime_s: int,
        scratch: Path,
    ) -> Space:
        """Make the volumes, have the holder hold them, and see that the host enforces their sizes.

        `scratch` is a folder of ours for a file system's file. Raises `SpaceError`, `SandboxMismatchError`
        and `EngineCallError`, and leaves nothing behind then.
        """
        _require_workspace(workdir)
        space = cls(station.engine, terms.mode, temporary_of(workdir))
        device = None
        try:
            if terms.mode == "loop":
                device = LoopDevice.make(scratch / file_name(labels), terms.bytes, terms.files, owner)
            space._volume(f"{name}-work", workdir, terms.bytes, terms.files, labels, owner, device=device)
            for kind, target in (("logs", LOGS), ("out", out)):
                space._volume(f"{name}-{kind}", target, SIDE_BYTES, SIDE_FILES, labels, owner)
            size = max(home_bytes, HOME_BYTES)
            space._volume(f"{name}-home", home, size, HOME_FILES, labels, owner, mode="0700")
            space._hold(station, name, image, labels, lifetime_s)
        except BaseException:
            with contextlib.suppress(WorkerError):
                space.remove()
            raise
        finally:
            if device is not None:
                device.let_go()
        return space

    def _volume(
        self,
        name: str,
        target: str,
        size: int,
        files: int,
        labels: Mapping[str, str],
        owner: Owner,
        *,
        device: LoopDevice | None = None,
        mode: str = "0755",
    ) -> None:
        options = {"type": "ext4", "device": device.path, "o": f"{_MOUNT_OPTIONS},noatime"} if device else {}
        if device is None:
            shape = f"size={size},nr_inodes={files},mode={mode},uid={owner.uid},gid={owner.gid}"
            options = {"type": "tmpfs", "device": "tmpfs", "o": f"{_MOUNT_OPTIONS},{shape}"}
        with translated("volume"):
            made = self._engine.api.create_volume(
                name, driver="local", driver_opts=options, labels={**labels, "assize.role": "space"}
            )
        self._volumes.append((name, target, str(made["Mountpoint"]), size, files))

    def _hold(
        self, station: Station, name: str, image: str, labels: Mapping[str, str], lifetime_s: int
    ) -> None:
        body = create_body(
            image,
            Limits(_HOLDER.memory_bytes, _HOLDER.cpus_milli, _HOLDER.pids, lifetime_s),
            runtime="runc",
            grader=False,
            labels={**labels, "assize.role": "holder"},
            volumes={volume: target for volume, target, *_ in self._volumes},
            workdir="/",
            engine_network=False,
        )
        for mount in body["HostConfig"]["Mounts"]:
            mount["VolumeOptions"] = {"NoCopy": True}  # what the image has there comes with the agent's
        self.holder = Container.create(self._engine, station.watch, f"{name}-holder", body)
        self.holder.start()
        outside = os.stat(station.disk_root()).st_dev if os.path.isdir(station.disk_root()) else None
        for volume, target, folder, size, files in self._volumes:
            self.places.append(Place(target, volume, folder, _enforced(folder, outside, size, files)))

    def mounts(self) -> list[dict[str, Any]]:
        """What the agent's container has, writable."""
        return [
            {"Type": "volume", "Source": place.volume, "Target": place.target, "ReadOnly": False}
            for place in self.places
        ]

    def folders(self) -> dict[str, str]:
        """Where the host sees each place, by its path in the sandbox."""
        return {place.target: place.folder for place in self.places}

    def intact(self) -> bool:
        """Whether everything is still held: what was in a place is lost with its mount."""
        try:
            return all(os.stat(place.folder).st_dev == place.device for place in self.places)
        except OSError:
            return False

    def used(self) -> tuple[int, int]:
        """Bytes and files that the places hold; raises `OSError` where one cannot be asked."""
        found = [os.statvfs(place.folder) for place in self.places]
        return (
            sum((one.f_blocks - one.f_bfree) * one.f_frsize for one in found),
            sum(one.f_files - one.f_ffree for one in found),
        )

    def remove(self) -> None:
        """Remove holder and volumes; the agent's container must be gone. What is gone already is fine."""
        if self.holder is not None:
            self.holder.remove()
        for volume, *_ in self._volumes:
            with contextlib.suppress(ContainerGoneError), translated("remove_volume"):
                self._engine.api.remove_volume(volume)


def _enforced(folder: str, outside: int | None, size: int, files: int) -> int:
    """The device of a mounted place, once its size is seen to be the one that was asked for."""
    try:
        device, found = os.stat(folder).st_dev, os.statvfs(folder)
    except OSError as error:
        raise SpaceError(f"this worker cannot see the engine's volumes: {error.strerror}") from None
    total = found.f_blocks * found.f_frsize
    fits = total <= size * _HEAD_ROOM and found.f_files <= files * _HEAD_ROOM + _SPARE_FILES
    if outside is None or device == outside or not fits:
        asked, got = {"bytes": size, "files": files}, {"bytes": total, "files": found.f_files}
        raise SandboxMismatchError("disk", asked, got)
    return device
