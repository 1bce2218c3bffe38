"""One sandbox container from create to removal, and how it came to its end."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from typing import Any, Final

import docker.errors

from orchestrator.observations import Death
from workers.errors import ContainerGoneError, EngineCallError
from workers.sandbox.client import Engine, translated
from workers.sandbox.profile import verify_created
from workers.sandbox.stream import ChunkReader
from workers.sandbox.watch import EngineWatch

_EVENT_WAIT_S: Final = 3.0
_STOP_WAIT_S: Final = 30
_MODE_FOLDER: Final = 1 << 31  # os.ModeDir of the engine's language
_MODE_TYPE: Final = 0x8F280000  # os.ModeType: anything but a regular file
_ENDLESS: Final = 1 << 62
_MAX_USERS_BYTES: Final = 1 << 20
MAX_CHANGES_BYTES: Final = 32 << 20


def _change(pairs: list[tuple[str, Any]]) -> tuple[int, str]:
    """One entry of the engine's list, made while parsing: a tuple needs a fifth of an object's memory."""
    found = dict(pairs)
    return int(found["Kind"]), str(found["Path"])


def changes_of(raw: bytes) -> list[tuple[int, str]]:
    """The engine's list of changes; it answers `null` for none. Raises `EngineCallError`."""
    try:
        found = json.loads(raw, object_pairs_hook=_change)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EngineCallError("changes", type(error).__name__, "not a list of changes") from None
    found = [] if found is None else found
    if not isinstance(found, list) or not all(isinstance(item, tuple) for item in found):
        raise EngineCallError("changes", "TypeError", "not a list of changes")
    return found


class Container:
    """A created container; `kill` is the only way it is ended, `remove` the only way it goes away."""

    def __init__(
        self, engine: Engine, watch: EngineWatch, container_id: str, body: Mapping[str, Any]
    ) -> None:
        self._engine = engine
        self._watch = watch
        self._our_kills = 0
        self._our_pauses = 0
        self._held = False
        self._ended_inside = False
        self.id: Final = container_id
        self.body: Final = body
        self.created: Mapping[str, Any] = {}
        self.created_at: Final = time.monotonic()

    @classmethod
    def create(cls, engine: Engine, watch: EngineWatch, name: str, body: Mapping[str, Any]) -> Container:
        """Create by image Id under a fixed name (a second start of the same attempt answers 409) and
        read the profile back; raises `ImageMissingError`, `SandboxMismatchError`, `EngineCallError`."""
        with translated("create"):
            answer = engine.api.create_container_from_config(dict(body), name)  # type: ignore[no-untyped-call]
        container = cls(engine, watch, answer["Id"], body)
        try:
            container.created = container.inspect()
            verify_created(body, container.created)
        except BaseException:
            container.remove()
            raise
        return container

    def inspect(self) -> Mapping[str, Any]:
        """The engine's view; raises `ContainerGoneError` if it was removed."""
        with translated("inspect"):
            found: Mapping[str, Any] = self._engine.api.inspect_container(self.id)
            return found

    def put(self, tar: bytes | Iterable[bytes]) -> None:
        """Unpack an uncompressed tar at `/`, given whole or in pieces.

        Only ever called while no agent code has run inside.
        """
        with translated("put_archive"):
            if not self._engine.api.put_archive(self.id, "/", tar):
                raise EngineCallError("put_archive", "Refused", "the engine did not take the archive")

    def start(self) -> None:
        """Start PID 1."""
        with translated("start"):
            self._engine.api.start(self.id)

    def pid(self) -> int:
        """PID 1 as the host counts it; 0 when it does not run."""
        return int(self.inspect()["State"]["Pid"] or 0)

    def is_running(self) -> bool:
        """Whether it is up and nobody else paused it; False as well when it is gone."""
        try:
            state = self.inspect()["State"]
        except ContainerGoneError:
            return False
        return bool(state["Running"]) and (self._held or not state["Paused"])

    def pause(self) -> None:
        """Hold everything inside still; a container that is not running is left as it is."""
        self._held = True
        with translated("pause"):
            try:
                self._engine.api.pause(self.id)
            except docker.errors.APIError as error:
                if error.status_code != 409:  # 409: it has ended, or somebody else paused it
                    raise
            else:
                self._our_pauses += 1

    def unpause(self) -> None:
        """Let it go on after `pause`; raises `EngineCallError` when it cannot be."""
        try:
            with translated("unpause"):
                self._engine.api.unpause(self.id)
        finally:
            self._held = False

    def kill(self) -> Mapping[str, Any] | None:
        """Kill every process inside and wait until the engine says so; returns the final `State`.

        None means that the container no longer exists. A container that died before is left as it is.
        """
        try:
            self._send_kill()
            state: Mapping[str, Any] = self.inspect()["State"]
            if state["Running"]:
                with translated("wait"):
                    self._engine.api.wait(self.id, timeout=_STOP_WAIT_S, condition="not-running")
                state = self.inspect()["State"]
        except ContainerGoneError:
            return None
        return state

    def ended_inside(self) -> None:
        """Our guard killed what ran in it: an end is our doing now, though the engine tells no kill."""
        self._ended_inside = True

    def _send_kill(self) -> None:
        try:
            with translated("kill"):
                self._engine.api.kill(self.id)
            self._our_kills += 1
        except EngineCallError as error:
            if error.status != 409:  # 409: it had ended before, by another hand
                raise

    def engine_left(self, wait_s: float = 0.0) -> bool:
        """Whether the engine's event stream broke since it was created, or does within `wait_s`."""
        return self._watch.broken_since(self.created_at, wait_s)

    def death(self, state: Mapping[str, Any] | None) -> Death | None:
        """How it ended if not by us: None after our own kill of a container nobody else touched."""
        if self.engine_left():
            return None if self._our_kills else Death.ENGINE_RESTART
        if state is None:
            return Death.REMOVED
        # Events arrive in order: once `die` is here, every kill before it is here as well.
        self._watch.wait_for(self.id, "die", _EVENT_WAIT_S)
        actions = self._watch.actions(self.id)
        if actions["kill"] > self._our_kills or actions["pause"] > self._our_pauses or actions["stop"]:
            return Death.FOREIGN_KILL
        if self._our_kills or self._ended_inside:
            return None
        return Death.OOM if state.get("OOMKilled") else Death.SELF

    def events(self) -> tuple[str, ...]:
        """What the engine said happened to it so far, in order; at most the first hundred."""
        return self._watch.history(self.id)

    def changes(self) -> list[tuple[int, str]]:
        """(kind, path) of everything that differs from the image; kind 0 changed, 1 added, 2 deleted.

        Raises `CarryOverflowError` when the list itself is too long, `PathRefusedError` when the engine
        cannot walk what lies there.
        """
        chunks = self._engine.stream("changes", f"/containers/{self.id}/changes")
        with closing(chunks):
            return changes_of(ChunkReader(chunks, MAX_CHANGES_BYTES).read())

    def written_bytes(self) -> int:
        """Sizes of everything written into its own layer, sparse or not; costs a walk over the layer.

        A tree too deep for the engine to walk counts as without end.
        """
        raw = b"".join(self._engine.stream("size", f"/containers/{self.id}/json", size="1"))
        size = int(json.loads(raw).get("SizeRw") or 0)
        return size if size >= 0 else _ENDLESS

    def archive(self, path: str) -> Generator[bytes, None, None]:
        """Chunks of an uncompressed tar of `path`; raises `ContainerGoneError` if there is no such path."""
        return self._engine.stream("get_archive", f"/containers/{self.id}/archive", path=path)

    def has_plain_users(self) -> bool:
        """Whether the engine can read the files of users and groups of a stopped container.

        It reads them whole at every start and exec, and waits for ever if they are pipes: a container
        without this must never be started.
        """
        found = [self._engine.path_stat(self.id, path) for path in ("/etc/passwd", "/etc/group")]
        return all(
            stat is None or (not stat["mode"] & _MODE_TYPE and stat["size"] <= _MAX_USERS_BYTES)
            for stat in found
        )

    def is_folder(self, path: str) -> bool | None:
        """Whether `path` is a folder; None if there is no such path."""
        stat = self._engine.path_stat(self.id, path)
        return None if stat is None else bool(stat["mode"] & _MODE_FOLDER)

    def commit(self, repository: str, labels: Mapping[str, str]) -> str:
        """Snapshot the stopped container's file system as an image; returns its Id."""
        return self._engine.commit(self.id, repository, None, labels)

    def remove(self) -> None:
        """Remove it with its anonymous volumes, running or not; gone already is fine."""
        try:
            with translated("remove"):
                self._engine.api.remove_container(self.id, v=True, force=True)
        except ContainerGoneError:
            pass
        except EngineCallError as error:
            if error.status != 409:  # 409: a removal is already under way
                raise
        finally:
            self._watch.forget(self.id)
