"""Requests and responses over WSGI."""

from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qs

MAX_BODY = 1 << 20


class HttpError(Exception):
    """Ends a request with a status."""

    def __init__(self, status):
        super().__init__(HTTPStatus(status).phrase)
        self.status = status


class Request:
    """What the application needs of a WSGI environment."""

    def __init__(self, environ):
        self.method = environ["REQUEST_METHOD"]
        self.path = environ.get("PATH_INFO", "/")
        self.raw_query = environ.get("QUERY_STRING", "")
        self.query = parse_qs(self.raw_query, keep_blank_values=True)
        self.cookie = environ.get("HTTP_COOKIE", "")
        self.form = {}
        if self.method == "POST":
            length = int(environ.get("CONTENT_LENGTH") or 0)
            if length > MAX_BODY:
                raise HttpError(413)
            self.form = parse_qs(environ["wsgi.input"].read(length).decode("utf-8", "replace"), keep_blank_values=True)

    def field(self, name, default=""):
        return self.form.get(name, [default])[0]

    def parameter(self, name, default=""):
        return self.query.get(name, [default])[0]


@dataclass
class Response:
    """Status, body and extra headers."""

    body: bytes = b""
    status: int = 200
    headers: list = field(default_factory=list)
    content_type: str = "text/html; charset=utf-8"

    def start(self, start_response):
        phrase = HTTPStatus(self.status).phrase
        headers = [("Content-Type", self.content_type), ("Content-Length", str(len(self.body))), *self.headers]
        start_response(f"{self.status} {phrase}", headers)
        return [self.body]


def redirect(location, *headers):
    return Response(status=303, headers=[("Location", location), *headers])
