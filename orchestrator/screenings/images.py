"""The images of a pack's tasks, built or reused, pinned by Id."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import HostError
from orchestrator.home import Home
from orchestrator.packs.pack import Pack, PackTask
from orchestrator.packs.refusals import Deviation
from orchestrator.packs.semantics import ImageContext, agent_context, grader_context
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
    """Image Ids of one task, and where an image only stands in for the one that the task names."""

    agent: str
    grader: str
    deviations: tuple[Deviation, ...] = ()


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
    return BuildRequest(Path(folder), dockerfile, timeout_s=max(1, context.build_timeout_ms // 1000))


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
    requests = [_request(agent)] if agent == grader else [_request(agent), _request(grader)]
    try:
        images = prepare_for(store, requests)
    except ImageError as error:
        raise ImagePreparationError(
            f"{pack.label} task {task.id}: {error.message}", hint=error.hint
        ) from None
    standins = {
        base.name: base.detail
        for image in images
        for base in (image.standins if isinstance(image, BuiltImage) else (image,))
        if base.standin
    }
    deviations = tuple(
        Deviation("image", f"{name} stands in: {detail}") for name, detail in sorted(standins.items())
    )
    return TaskImages(images[0].id, images[-1].id, deviations)
