"""Images with our own files on top of a pinned image: made once per content, used by every try.

What every try of a task needs inside (instruction, reference solution, hidden tests, empty folders with
the right owners) costs a process of the engine per try when it is copied in. So it is laid over the pinned
image once, through a container that is never started, and every try is created from the result by Id.
The label names the digest of pinned Id and content; the sandbox report names both Ids.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from workers.errors import EngineCallError, ImageMissingError
from workers.sandbox.client import Engine, translated
from workers.sandbox.helpers import unstarted
from workers.sandbox.tars import Owner
from workers.sandbox.users import resolve_owner

LABEL: Final = "assize.prepared"
REPOSITORY: Final = "assize/sandbox"


@dataclass(frozen=True)
class Prepared:
    """An image to create containers from, and the numeric user that its content belongs to."""

    id: str
    owner: Owner


class PreparedImages:
    """Makes and remembers prepared images of one engine; safe for many threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._known: dict[Hashable, Prepared] = {}
        self._made: set[str] = set()

    def ensure(
        self, base_id: str, user: str | None, key: Hashable, content: Callable[[Owner], bytes]
    ) -> Prepared:
        """The prepared image for `base_id`; `key` stands for the content, which is built only when needed.

        Raises `ImageMissingError` when the pinned image is gone, `UnknownUserError` for a bad user.
        """
        whole = (base_id, user, key)
        with self._lock:
            known = self._known.get(whole)
            if known is None:
                config = self._engine.image_config(base_id)
                owner = self._owner(base_id, user, str(config.get("User") or ""))
                known = Prepared(self._image(base_id, content(owner), config), owner)
                self._known[whole] = known
            return known

    def made(self) -> set[str]:
        """Ids of the images that were made here; others were there before, and are somebody else's, too."""
        with self._lock:
            return set(self._made)

    def forget(self, prepared: Prepared) -> None:
        """Make it again next time: somebody removed the image."""
        with self._lock:
            self._known = {key: value for key, value in self._known.items() if value != prepared}

    def _owner(self, base_id: str, user: str | None, image_user: str) -> Owner:
        def passwd() -> Iterable[bytes]:
            with unstarted(self._engine, base_id, "prepare") as helper, translated("get_archive"):
                chunks, _stat = self._engine.api.get_archive(helper, "/etc/passwd")
                return list(chunks)

        return resolve_owner(passwd, user, image_user)

    def _image(self, base_id: str, tar: bytes, config: Mapping[str, Any]) -> str:
        digest = hashlib.sha256(f"{base_id}\n".encode() + tar).hexdigest()
        tag = f"{REPOSITORY}:{digest[:32]}"
        with contextlib.suppress(ImageMissingError):
            found = self._engine.find_image(tag)
            if ((found.get("Config") or {}).get("Labels") or {}).get(LABEL) == digest:
                return str(found["Id"])
        with unstarted(self._engine, base_id, "prepare") as helper:
            with translated("put_archive"):
                if not self._engine.api.put_archive(helper, "/", tar):
                    raise EngineCallError("put_archive", "Refused", "the engine did not take the archive")
            # The helper's own labels would mark the image as its process's; it outlives the process.
            labels = {
                **(config.get("Labels") or {}),
                **dict.fromkeys(self._engine.owner_labels, ""),
                LABEL: digest,
            }
            made = self._engine.commit(helper, REPOSITORY, digest[:32], labels)
        self._made.add(made)
        return made
