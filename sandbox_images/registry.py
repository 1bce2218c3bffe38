"""Pull an image, once and briefly; remember for a while what could not be pulled.

Two kinds of no are kept apart: a registry that cannot be reached (an hour, for all its names) and a
name it does not have (a day).
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import docker.errors
import requests.exceptions
import urllib3.exceptions

from .engine import connect
from .lock import file_lock, write_atomically
from .store import ImageStore

_IDLE_S = 20
_BROKEN = (docker.errors.APIError, requests.exceptions.RequestException, urllib3.exceptions.HTTPError)
_KEEP_UNREACHABLE_S = 3600
_KEEP_ABSENT_S = 86400
_ABSENT = ("not found", "denied", "manifest unknown", "unauthorized", "does not exist")


def pull_image(store: ImageStore, name: str) -> str | None:
    """Pull `name`; returns None when it came, else why not (also when that is remembered).

    At most 20 s without a byte from the engine.
    """
    refused = Refusals(store.cache / "registry.json")
    if known := refused.recall(name, time.time()):
        return known
    store.say(f"pulling {name}")
    client = connect(_IDLE_S)
    repository, tag = split_name(name)
    try:
        for event in client.pull(repository, tag=tag, stream=True, decode=True):
            if "error" in event:
                raise docker.errors.APIError(str(event["error"]))
    except _BROKEN as error:
        why = str(getattr(error, "explanation", None) or error).strip().splitlines()[0]
        refused.remember(name, why, time.time())
        return why
    finally:
        client.close()
    return None


def split_name(name: str) -> tuple[str, str]:
    """Repository and tag; a digest is its own tag (`repo@sha256:...` gives `repo`, `sha256:...`)."""
    repository, at, digest = name.partition("@")
    if at:
        return repository.rsplit(":", 1)[0] if ":" in repository.rsplit("/", 1)[-1] else repository, digest
    head, _, tag = name.rpartition(":")
    return head, tag


def registry_of(name: str) -> str:
    """A key for the registry a name is served by; a name without a host has the engine's default one."""
    first, slash, _ = name.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "default"


class Refusals:
    """Remembered failed pulls at `path`; a broken or missing file only means nothing is remembered."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def recall(self, name: str, now_s: float) -> str | None:
        """Why `name` cannot be pulled, if that is still remembered at `now_s` (Unix seconds)."""
        entries = self._read()
        for key in (_key("name", name), _key("registry", registry_of(name))):
            until, why = entries.get(key, (0.0, ""))
            if until > now_s:
                return why
        return None

    def remember(self, name: str, why: str, now_s: float) -> None:
        """Note a refusal: of the name if the registry answered, of the whole registry if it did not."""
        absent = any(word in why.lower() for word in _ABSENT)
        with file_lock(self.path.with_name(self.path.name + ".guard")):
            entries = {key: value for key, value in self._read().items() if value[0] > now_s}
            if absent:
                entries[_key("name", name)] = (now_s + _KEEP_ABSENT_S, why)
            else:
                entries[_key("registry", registry_of(name))] = (now_s + _KEEP_UNREACHABLE_S, why)
            write_atomically(self.path, json.dumps(entries, indent=1).encode())

    def _read(self) -> dict[str, tuple[float, str]]:
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            return {str(key): (float(value[0]), str(value[1])) for key, value in data.items()}
        except (OSError, ValueError, TypeError, AttributeError, IndexError):
            return {}


def _key(kind: str, name: str) -> str:
    # Hashed: the file names no host.
    return f"{kind}:{hashlib.sha256(name.encode()).hexdigest()[:32]}"
