"""The images of a pack's tasks, built or reused, pinned by Id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.errors import HostError
from orchestrator.home import Home
from orchestrator.packs.pack import Pack, PackTask
from orchestrator.packs.refusals import Deviation
from orchestrator.packs.semantics import ImageContext, agent_context, grader_context, sidecars
from sandbox_images.base import BASE_IMAGE
from sandbox_images.build import BuildRequest, BuiltImage
from sandbox_images.engine import connect
from sandbox_images.errors import ImageError
from sandbox_images.lock import ImageLock
from sandbox_images.prepare import prepare_for
from sandbox_images.store import ImageStore

_CLIENT_TIMEOUT_S = 600


class ImagePreparationError(HostError):
    """An image of the pack could not be made ready; nothing was planned."""

    code = "image"


@dataclass(frozen=True)
class TaskImages:
    """Image Ids of one task, and where an image only stands in for the one that the task names.

    `sidecars` maps the names of services to image Ids; `pod` is the image of our own containers beside them,
    None for a task without any.
    """

    agent: str
    grader: str
    deviations: tuple[Deviation, ...] = ()
    sidecars: Mapping[str, str] = field(default_factory=dict)
    pod: str | None = None

    def every(self) -> frozenset[str]:
        """The Id of each image that a try of the task needs."""
        found = {self.agent, self.grader, *self.sidecars.values()}
        return frozenset(found if self.pod is None else {*found, self.pod})

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> TaskImages:
        """The reverse of `dataclasses.asdict`; raises `TypeError` for what it does not know."""
        deviations = tuple(Deviation(**one) for one in data["deviations"])
        return cls(**{**data, "deviations": deviations})


def open_store(home: Home, say: Callable[[str], None]) -> ImageStore:
    """The image store of a home; `HostError` when no engine answers."""
    try:
        return ImageStore(connect(_CLIENT_TIMEOUT_S), ImageLock(home.images_lock), home.cache, say)
    except ImageError as error:
        raise HostError(error.message, hint=error.hint or "run `assize doctor`") from None


def _request(context: ImageContext) -> BuildRequest | str:
    if context.docker_image is not None:
        return context.docker_image
    folder, dockerfile = context.directory, context.dockerfile
    if folder is None or dockerfile is None:
        raise HostError("a task names neither an image nor a Dockerfile")
    return BuildRequest(
        Path(folder),
        dockerfile,
        build_args=dict(context.build_args),
        target=context.target,
        timeout_s=max(1, context.build_timeout_ms // 1000),
    )


def prepare_images(
    pack: Pack, tasks: Iterable[PackTask], home: Home, say: Callable[[str], None]
) -> dict[str, TaskImages]:
    """Build or find every image; raises `ImagePreparationError` naming the task."""
    store = open_store(home, say)
    try:
        return {task.id: _prepare_task(pack, task, store) for task in tasks}
    finally:
        store.client.close()


def _prepare_task(pack: Pack, task: PackTask, store: ImageStore) -> TaskImages:
    agent, grader = agent_context(task.task), grader_context(task.task)
    beside = sidecars(task.task)
    requests = [_request(agent), _request(grader if agent != grader else agent)]
    requests += [_request(context) for _, context in beside]
    requests += [BASE_IMAGE] if beside else []
    try:
        images = prepare_for(store, requests)
    except ImageError as error:
        raise ImagePreparationError(
            f"{pack.label} task {task.id}: {error.message}", hint=error.hint
        ) from None
    ids = {sidecar.name: image.id for (sidecar, _), image in zip(beside, images[2:], strict=False)}
    _require_no_volumes(pack, task, store, ids)
    standins = {
        base.name: base.detail
        for image in images
        for base in (image.standins if isinstance(image, BuiltImage) else (image,))
        if base.standin
    }
    deviations = tuple(
        Deviation("image", f"{name} stands in: {detail}") for name, detail in sorted(standins.items())
    )
    return TaskImages(images[0].id, images[1].id, deviations, ids, images[-1].id if beside else None)


def _require_no_volumes(pack: Pack, task: PackTask, store: ImageStore, ids: Mapping[str, str]) -> None:
    """What a sidecar writes is measured in its own layer; a volume of its image would be without a limit."""
    for name, image_id in ids.items():
        found = ((store.inspect(image_id) or {}).get("Config") or {}).get("Volumes")
        if found:
            raise ImagePreparationError(
                f"{pack.label} task {task.id}: the image of the service {name} declares a volume"
                f" ({', '.join(sorted(found))}), which would have no limit",
                hint="build the service's image without VOLUME, or leave the task out with --task",
            )
