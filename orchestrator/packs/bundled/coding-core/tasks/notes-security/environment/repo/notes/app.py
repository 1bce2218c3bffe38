"""The WSGI application."""

import os
import re
from urllib.parse import quote

from notes import pages
from notes.http import HttpError, Request, Response, redirect
from notes.passwords import check_password
from notes.sessions import COOKIE, Sessions
from notes.store import Store


class App:
    """Routes requests; every handler takes the request, the user and the groups of its path."""

    def __init__(self, store, uploads, secret):
        self.store = store
        self.uploads = uploads
        self.sessions = Sessions(secret)
        self.routes = [
            ("GET", re.compile(r"/"), self.list_notes),
            ("POST", re.compile(r"/notes"), self.add_note),
            ("GET", re.compile(r"/notes/(\d+)"), self.show_note),
            ("POST", re.compile(r"/notes/(\d+)/delete"), self.delete_note),
            ("GET", re.compile(r"/files/(.+)"), self.get_file),
            ("POST", re.compile(r"/logout"), self.logout),
        ]

    def __call__(self, environ, start_response):
        try:
            response = self.respond(Request(environ))
        except HttpError as error:
            response = Response(pages.page("Error", str(error)), error.status)
        return response.start(start_response)

    def respond(self, request):
        if request.path == "/login":
            return self.login(request)
        user = self.sessions.user_of(request.cookie)
        if user is None:
            if request.method != "GET":
                raise HttpError(403)
            target = request.path + ("?" + request.raw_query if request.raw_query else "")
            return redirect("/login?next=" + quote(target, safe=""))
        for method, pattern, handler in self.routes:
            match = pattern.fullmatch(request.path)
            if match and method == request.method:
                return handler(request, user, *match.groups())
        raise HttpError(404)

    def login(self, request):
        if request.method == "GET":
            return Response(pages.login_page(request.parameter("next", "/")))
        user, target = request.field("user"), request.field("next", "/") or "/"
        stored = self.store.password_of(user)
        if stored is None or not check_password(request.field("password"), stored):
            return Response(pages.login_page(target, f"Wrong password for {user}"), 403)
        return redirect(target, ("Set-Cookie", f"{COOKIE}={self.sessions.issue(user)}; Path=/"))

    def logout(self, request, user):
        return redirect("/login", ("Set-Cookie", f"{COOKIE}=; Path=/; Max-Age=0"))

    def list_notes(self, request, user):
        query = request.parameter("q")
        return Response(pages.list_page(self.store.search(query, request.parameter("sort", "created")), query))

    def find(self, number):
        note = self.store.note(int(number))
        if note is None:
            raise HttpError(404)
        return note

    def show_note(self, request, user, number):
        return Response(pages.note_page(self.find(number)))

    def add_note(self, request, user):
        if not request.field("title"):
            raise HttpError(400)
        number = self.store.add_note(user, request.field("title"), request.field("text"), request.field("attachment"))
        return redirect(f"/notes/{number}")

    def delete_note(self, request, user, number):
        self.store.delete_note(number)
        return redirect("/")

    def get_file(self, request, user, name):
        path = os.path.join(self.uploads, name)
        if not os.path.exists(path):
            raise HttpError(404)
        with open(path, "rb") as stream:
            return Response(stream.read(), content_type="application/octet-stream")


def create_app(database, uploads, secret):
    """The application; `secret` (bytes) protects sessions."""
    return App(Store(database), uploads, secret)
