import io
from urllib.parse import urlencode

import pytest

from notes import create_app


class Client:
    """Calls the application and keeps the session cookie."""

    def __init__(self, app):
        self.app, self.cookie = app, ""

    def request(self, method, path, query="", form=None):
        body = urlencode(form or {}).encode()
        environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query, "HTTP_COOKIE": self.cookie,
                   "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
        seen = {}

        def start(status, headers):
            seen.update(status=int(status[:3]), headers=dict(headers))

        text = b"".join(self.app(environ, start)).decode("utf-8", "replace")
        if "Set-Cookie" in seen["headers"]:
            self.cookie = seen["headers"]["Set-Cookie"].split(";")[0]
        return seen["status"], seen["headers"], text

    def login(self, user, password="secret", **more):
        return self.request("POST", "/login", form={"user": user, "password": password, **more})


@pytest.fixture
def client(tmp_path):
    (tmp_path / "uploads").mkdir()
    (tmp_path / "uploads" / "plan.txt").write_text("plan")
    app = create_app(str(tmp_path / "notes.db"), str(tmp_path / "uploads"), secret=b"test secret")
    app.store.add_user("alice", "secret")
    return Client(app)


def test_login_is_needed(client):
    status, headers, _ = client.request("GET", "/notes/1", "x=1")
    assert (status, headers["Location"]) == (303, "/login?next=%2Fnotes%2F1%3Fx%3D1")
    assert client.request("POST", "/notes")[0] == 403


def test_login_and_logout(client):
    assert client.login("alice", "wrong")[0] == 403
    status, headers, _ = client.login("alice", next="/notes/1?x=1")
    assert (status, headers["Location"]) == (303, "/notes/1?x=1")
    assert client.request("GET", "/")[0] == 200
    client.request("POST", "/logout")
    assert client.request("GET", "/")[0] == 303


def test_notes(client):
    client.login("alice")
    _, headers, _ = client.request("POST", "/notes", form={"title": "Shopping", "text": "milk", "attachment": "plan.txt"})
    _, _, text = client.request("GET", headers["Location"])
    assert "<h1>Shopping</h1>" in text and 'href="/files/plan.txt"' in text
    assert "Shopping" in client.request("GET", "/", "q=MILK")[2]
    assert "Shopping" not in client.request("GET", "/", "q=bread")[2]
    assert client.request("POST", headers["Location"] + "/delete")[0] == 303
    assert client.request("GET", headers["Location"])[0] == 404


def test_sorting(client):
    client.login("alice")
    for title in ("b", "c", "a"):
        client.request("POST", "/notes", form={"title": f"note {title}", "text": ""})
    text = client.request("GET", "/", "sort=-title")[2]
    assert text.index("note c") < text.index("note b") < text.index("note a")


def test_files(client):
    client.login("alice")
    assert client.request("GET", "/files/plan.txt")[2] == "plan"
    assert client.request("GET", "/files/none.txt")[0] == 404
