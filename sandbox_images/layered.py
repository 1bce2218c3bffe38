"""Add a recipe's packages to an image that came from a registry."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

from .errors import BuildFailedError
from .recipes import Recipe
from .store import ImageStore

_TIMEOUT_S = 1200


def layered_dockerfile(start_id: str, recipe: Recipe) -> str:
    """The Dockerfile text; `start_id` is an image Id, so nothing is looked up again."""
    lines = [f"FROM {start_id}"]
    if recipe.packages:
        lines.append(
            "RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "
            + " ".join(recipe.packages)
            + " && rm -rf /var/lib/apt/lists/*"
        )
    if recipe.user:
        lines.append(
            f"RUN groupadd --gid 1000 {recipe.user} && "
            f"useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash {recipe.user}"
        )
    lines += ["ENV LANG=C.UTF-8", 'CMD ["/bin/bash"]']
    return "\n".join(lines) + "\n"


def build_on_registry_image(
    store: ImageStore, start_id: str, recipe: Recipe, tag: str, labels: Mapping[str, str]
) -> str:
    """Build and tag; returns the image Id. BuildFailedError with the engine's last lines."""
    text = layered_dockerfile(start_id, recipe).encode()
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
    context.seek(0)
    store.say(f"building {tag} on the registry's image")
    for event in store.client.build(
        fileobj=context,
        custom_context=True,
        tag=tag,
        rm=True,
        forcerm=True,
        decode=True,
        timeout=_TIMEOUT_S,
        labels=dict(labels),
    ):
        if "error" in event:
            raise BuildFailedError(f"{tag}: {str(event['error']).strip()}")
    description = store.inspect(tag)
    if description is None:
        raise BuildFailedError(f"{tag}: the engine built it but does not list it")
    return str(description["Id"])
