"""Evidence in S3-compatible storage, through boto3 (by AWS, released weekly; an extra of this package).

Address of the server, credentials and certificates come from where boto3 always takes them:
`AWS_ENDPOINT_URL_S3`, `AWS_SHARED_CREDENTIALS_FILE`, `AWS_CA_BUNDLE` and the like.
"""

from __future__ import annotations

import base64
import hashlib
import re
import threading
from pathlib import Path
from typing import Any, Final

from orchestrator.evidence.errors import EvidenceError, EvidenceUnreachableError
from orchestrator.evidence.store import CHUNK_BYTES

CONNECT_TIMEOUT_S: Final = 5
READ_TIMEOUT_S: Final = 20
ATTEMPTS: Final = 3
"""One call ends within about a minute and a quarter, whatever the server does."""

_URL: Final = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:/[A-Za-z0-9._-]+)*)/?")
_MARK: Final = "assize-sha256"
_ABSENT: Final = frozenset({"404", "NoSuchKey", "NotFound"})


class S3Archive:
    """The objects below `s3://bucket/prefix`; used by many threads, opened at the first use of a process."""

    def __init__(self, url: str) -> None:
        """Raises `EvidenceError` for what is no such address."""
        match = _URL.fullmatch(url)
        if match is None:
            raise EvidenceError(f"{url[:200]!r} is no archive of evidence: s3://bucket or s3://bucket/prefix")
        self.url = url.rstrip("/")
        self._bucket, self._prefix = match[1], match[2].lstrip("/")
        self._lock = threading.Lock()
        self._client: Any = None

    def keep(self, name: str, path: Path) -> None:
        """Store the file under `name`, unless an object put there as the same one is; raises `EvidenceError`.

        The server is told the SHA-256, so that it can refuse what arrives otherwise.
        """
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
            size = file.tell()
            found = self._call("head_object", name, absent_is_none=True)
            if found is not None and (found["ContentLength"], found.get("Metadata", {}).get(_MARK)) == (
                size,
                digest.hexdigest(),
            ):
                return
            file.seek(0)
            self._call(
                "put_object",
                name,
                Body=file,
                ContentLength=size,
                ChecksumSHA256=base64.b64encode(digest.digest()).decode(),
                Metadata={_MARK: digest.hexdigest()},
            )

    def fetch(self, name: str, path: Path) -> bool:
        """Write the object to the new file `path`; False when there is none.

        Raises `EvidenceError`, and `OSError` when this host cannot write it.
        """
        found = self._call("get_object", name, absent_is_none=True)
        if found is None:
            return False
        try:
            with path.open("xb") as file:
                for chunk in found["Body"].iter_chunks(CHUNK_BYTES):
                    file.write(chunk)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        except Exception as error:  # botocore's, and those of what it stands on
            path.unlink(missing_ok=True)
            raise self._failed("read", error) from error
        finally:
            found["Body"].close()
        return True

    def _call(self, operation: str, name: str, *, absent_is_none: bool = False, **more: Any) -> Any:
        client = self._opened()
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

        key = f"{self._prefix}/{name}" if self._prefix else name
        try:
            return getattr(client, operation)(Bucket=self._bucket, Key=key, **more)
        except ClientError as error:
            if absent_is_none and error.response.get("Error", {}).get("Code") in _ABSENT:
                return None
            raise self._failed(operation, error) from error
        except (BotoCoreError, OSError) as error:
            raise self._failed(operation, error) from error

    def _failed(self, what: str, error: Exception) -> EvidenceError:
        said = " ".join(str(error).split())[:300]
        return EvidenceUnreachableError(f"the archive {self.url} failed ({what}): {said}")

    def _opened(self) -> Any:
        with self._lock:
            if self._client is None:
                try:
                    import boto3  # type: ignore[import-untyped]
                    from botocore.config import Config  # type: ignore[import-untyped]
                except ImportError as error:
                    raise EvidenceError(
                        "evidence in S3 needs the package boto3", hint="install assize[s3]"
                    ) from error
                self._client = boto3.client(
                    "s3",
                    config=Config(
                        connect_timeout=CONNECT_TIMEOUT_S,
                        read_timeout=READ_TIMEOUT_S,
                        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                        # Checksums of our own choice are sent; others break servers that are only compatible.
                        request_checksum_calculation="when_required",
                        response_checksum_validation="when_required",
                    ),
                )
            return self._client
