"""The one error root of the sandbox_images package."""

from __future__ import annotations


class ImageError(Exception):
    """Base of everything this package raises on purpose; `hint` says what to do next."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class EngineUnreachableError(ImageError):
    """No Docker engine answers at the address in use."""


class EngineStartError(ImageError):
    """An engine was to be installed or started on this host and did not come up."""


class HostSetupError(ImageError):
    """A host tool or package source that is needed here is missing and could not be added."""


class ImageLockError(ImageError):
    """The image lock file cannot be read as what it must be."""


class RecipeError(ImageError):
    """The recipe file of the base images is wrong."""


class ImageUnavailableError(ImageError):
    """An image name can neither be pulled nor built nor stood in for."""


class BuildContextError(ImageError):
    """A build context holds something that must not or cannot be sent to a build."""


class DockerfileError(ImageError):
    """A Dockerfile cannot be read, or asks for something that cannot be done faithfully here."""


class BuildFailedError(ImageError):
    """The engine reported that a build step failed; the message ends with the last lines of output."""


class BuildTimeoutError(ImageError):
    """A build did not end within its time limit."""


class ImageContentError(ImageError):
    """A file inside a built image is not the file of the context it was built from."""


class PackageGatewayError(ImageError):
    """The package gateway of a build cannot start, or refused a package."""
