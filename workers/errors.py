"""The one error root of the workers package."""

from __future__ import annotations


class WorkerError(Exception):
    """Base of everything the workers package raises on purpose."""


class EngineCallError(WorkerError):
    """A call of ours to the Docker engine failed; `call` names it, `kind` is the error's type name."""

    def __init__(self, call: str, kind: str, detail: str, status: int | None = None) -> None:
        super().__init__(f"{call}: {kind}: {detail}")
        self.call = call
        self.kind = kind
        self.detail = detail
        self.status = status


class ImageMissingError(EngineCallError):
    """The engine has no image under the pinned Id."""


class ContainerGoneError(EngineCallError):
    """The container does not exist (any more)."""


class PathRefusedError(EngineCallError):
    """The engine answered, and refused a path for its own form (too long, a link loop, no folder).

    Only what lies in the container's file system leads here, so it is never a fault of the engine.
    """


class SandboxMismatchError(WorkerError):
    """The engine created something else than what was asked for (image, runtime, network, limits)."""

    def __init__(self, field: str, wanted: object, got: object) -> None:
        super().__init__(f"{field}: asked for {wanted!r}, the engine has {got!r}")
        self.field = field


class UnstartableError(WorkerError):
    """What the agent left cannot be started again without harm to the engine; it is not graded."""


class CarryOverflowError(WorkerError):
    """What the agent left is larger than the artefact cap; nothing of it is graded."""


class ArchiveFormError(WorkerError):
    """An archive from the engine cannot be read."""
