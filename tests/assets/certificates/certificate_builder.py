"""Collects named certificate files with the verdict that each must get."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from certificate_world import (
    World,
    changed,
    resign,
    trust_root,
)

from orchestrator.certificates import bundle

P = "predicate"


@dataclass
class Case:
    """One file and what verification must say of it; `codes` are all reasons with a non-zero exit.

    `after` names the versions that a trust root is said to follow, `remembered` the file with what the
    verifier remembers, `consistency` the one with a proof that it is offered, `published` the folder of the
    published logs that it reads notices from.
    """

    name: str
    row: int
    kind: str
    file: str
    exit: int
    codes: list[str]
    trust: str = "good"
    store: str | None = None
    current_packs: dict[str, str] | None = None
    notes: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    remembered: str | None = None
    consistency: str | None = None
    published: str | None = None


class Builder:
    """Collects cases and writes their files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cases: list[Case] = []
        folder.mkdir(parents=True, exist_ok=True)
        self.world = World(folder / "store")
        self.base = self.world.screening().usual()
        self.signed, _ = self.base.certificates[0]
        self.manifest = self.signed.manifest or b""
        self.roots = {
            "good": self.world.trust_bytes,
            "revoked": trust_root(
                revoked={"fromIndex": 0, "reason": "compromise", "announcedAt": "2026-10-09T08:00:00Z"}
            ),
            "retired": trust_root(not_after="2026-06-01T00:00:00Z"),
            "expired": trust_root(expires_at="2026-06-01T00:00:00Z"),
            "opening-only": trust_root(usages=["screening-opening/v1"]),
        }
        for name, raw in self.roots.items():
            (folder / f"trust-{name}.json").write_bytes(raw)

    def add(
        self, name: str, row: int, kind: str, data: bytes, exit_code: int, *codes: str, **more: Any
    ) -> None:
        suffix = {"try": bundle.TRY_SUFFIX, "screening": ".zip", "trust-root": ".json"}[kind]
        self.case(name, row, kind, self.file(name + suffix, data), exit_code, *codes, **more)

    def file(self, name: str, data: bytes) -> str:
        """Write a file; returns its name."""
        (self.folder / name).write_bytes(data)
        return name

    def root(self, name: str, raw: bytes) -> None:
        """A trust root that cases name."""
        self.roots[name] = raw
        self.file(f"trust-{name}.json", raw)

    def case(
        self, name: str, row: int, kind: str, file: str, exit_code: int, *codes: str, **more: Any
    ) -> None:
        """A case about files that are there."""
        self.cases.append(Case(name, row, kind, file, exit_code, list(codes), **more))

    def one(self, name: str, row: int, envelope: bytes, exit_code: int, *codes: str, **more: Any) -> None:
        """A try bundle around an envelope, with the manifest of the genuine certificate."""
        manifest = more.pop("manifest", self.manifest)
        self.add(name, row, "try", bundle.encode_try(envelope, manifest), exit_code, *codes, **more)

    def edited(
        self, name: str, row: int, path: str, value: Any, exit_code: int, *codes: str, **more: Any
    ) -> None:
        """The genuine statement with one value replaced, signed again by the trusted key (a bad lab)."""
        data = changed(self.signed.envelope, P, *path.split("."), value)
        self.one(name, row, resign(data), exit_code, *codes, **more)

    def write_index(self) -> None:
        index = [asdict(case) for case in self.cases]
        (self.folder / "index.json").write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")
