"""A local S3 server of the tests' own (moto's), on a loopback port."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Mapping

from tests.assets.services.own import OwnProcess, free_port, own_folder

BUCKET = "evidence-of-tests"


class S3Server:
    """One server; `start`, give `environment` to its users, at last `close`. Objects die with the process."""

    def __init__(self) -> None:
        self.port = free_port()
        self._folder = own_folder("s3")
        command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(self.port)]
        self._process = OwnProcess(command, self._folder, self._answers)

    @property
    def environment(self) -> Mapping[str, str]:
        """What boto3 is told; this server asks for no secret."""
        return {
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self) -> None:
        """Return when it answers and has the bucket."""
        self._process.start()
        assert self.ask("PUT", f"/{BUCKET}")[0] == 200

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """A plain request without a signature, past every client of ours; status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body, {"Host": f"127.0.0.1:{self.port}"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _answers(self) -> bool:
        try:
            return self.ask("GET", "/moto-api/data.json")[0] == 200
        except OSError:
            return False

    def stop(self) -> None:
        """It is away, and everything in it is gone."""
        self._process.stop()

    def close(self) -> None:
        """End it and remove its folder."""
        self._process.stop()
        self._process.remove()
