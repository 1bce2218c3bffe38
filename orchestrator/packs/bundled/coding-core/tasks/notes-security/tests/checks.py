"""Checks of notes-security: requests against the application in a child; answers are judged here."""

import hashlib
import html
import re
from urllib.parse import unquote, urlencode

from harness import ask_python, check, equal, expect, hidden, once, put, pytest_run, scratch

DRIVER = """
import io, os, sqlite3, time
from notes import create_app
os.makedirs("data/uploads/folder", exist_ok=True)
open("data/uploads/plan.txt", "w").write("plan"); open("data/uploads/a b&c%41#.txt", "w").write("odd")
open("data/uploads/.hidden", "w").write("hidden"); open("data/secret.txt", "w").write("outside")
open("data/uploads/folder/inner.txt", "w").write("inner")
for name, target in (("link", "../secret.txt"), ("dirlink", "..")):
    if not os.path.lexists("data/uploads/" + name): os.symlink(target, "data/uploads/" + name)
apps = {}
real = time.time
def app_of(name):
    if name not in apps:
        apps[name] = create_app("data/notes.db", "data/uploads", secret=name.encode())
    return apps[name]
app_of("one")
with sqlite3.connect("data/notes.db") as connection:
    for user in ("alice", "bob", "<i>eve</i>"):
        connection.execute("INSERT INTO users (name, password) VALUES (?, ?)", (user, "e5e9fa1ba31ecd1ae84f75caaa474f3a663f05f4"))
def handle(q):
    if q["op"] == "pipe": return os.mkfifo("data/uploads/pipe")
    if q["op"] == "add": return app_of("one").store.add_user(q["user"], q["password"])
    if q["op"] == "sql":
        connection = sqlite3.connect("data/notes.db")
        with connection: rows = [list(row) for row in connection.execute(q["sql"], q.get("args", []))]
        connection.close()
        return rows
    time.time = lambda: real() + q.get("ahead", 0)
    body = q.get("body", "").encode()
    environ = {"REQUEST_METHOD": q["method"], "PATH_INFO": q["path"], "QUERY_STRING": q.get("query", ""), "HTTP_COOKIE": q.get("cookie", ""),
               "CONTENT_LENGTH": q.get("length", str(len(body))), "wsgi.input": io.BytesIO(body), "SCRIPT_NAME": "", "SERVER_NAME": "x",
               "SERVER_PORT": "80", "wsgi.url_scheme": "http", "CONTENT_TYPE": "application/x-www-form-urlencoded", "wsgi.errors": io.StringIO()}
    seen = {}
    def start(status, headers, exc_info=None): seen.update(status=int(status[:3]), headers=[list(h) for h in headers])
    text = b"".join(app_of(q.get("app", "one"))(environ, start)).decode("latin-1")
    return {**seen, "text": text}
"""


def get(path, query="", **more):
    return {"op": "http", "method": "GET", "path": path, "query": query, **more}


def post(path, **more):
    keys = ("cookie", "app", "ahead", "length")
    form = {key: value for key, value in more.items() if key not in keys}
    return {"op": "http", "method": "POST", "path": path, "body": urlencode(form), **{k: v for k, v in more.items() if k in keys}}


def sql(text, *args):
    return {"op": "sql", "sql": text, "args": list(args)}


def header(answer, name):
    values = [value for key, value in answer["headers"] if key.lower() == name.lower()]
    return values[0] if len(values) == 1 else (values or None)


def ask(*requests, timeout=20):
    """All requests in one fresh application; a traceback in it fails the check."""
    answers = ask_python(DRIVER, list(requests), scratch(), timeout=timeout)
    for request, answer in zip(requests, answers):
        expect("ok" in answer, f"{request}: {answer}")
    return [answer["ok"] for answer in answers]


def login(user="alice", password="secret", **more):
    return post("/login", user=user, password=password, **more)


@once
def cookies():
    """Cookies of alice, bob and eve under the secret `one`: signing does not depend on the process."""
    answers = ask(login("alice"), login("bob"), login("<i>eve</i>"), login("alice", app="two"))
    expect(all(answer["status"] == 303 for answer in answers), answers)
    return [header(answer, "Set-Cookie").split(";")[0] for answer in answers]


def as_alice(request):
    return {**request, "cookie": cookies()[0]}


def asked(*requests):
    return ask(*(as_alice(r) if r["op"] == "http" and "cookie" not in r else r for r in requests))


def titles(answer):
    return [html.unescape(title) for title in re.findall(r'<a href="/notes/\d+">(.*?)</a>', answer["text"])]


NOTES = [post("/notes", title=title, text=text) for title, text in
         (("50% off", "it's"), ("500 off", 'say "x"'), ("a_b", "back\\slash"), ("axb", "' OR 1=1 --"), ("MiXed", "none"))]


@once
def searches():
    queries = ["50%", "a_b", "it's", '"x"', "k\\s", "' OR 1=1 --", "mixed", "%", "_", "'", "') UNION SELECT 1,2,3,4,5,6 --", "\\", ""]
    answers = asked(*NOTES, *(get("/", urlencode({"q": query})) for query in queries))
    return dict(zip(queries, answers[len(NOTES):]))


@check("a query is plain text")
def _plain():
    wanted = {"50%": ["50% off"], "a_b": ["a_b"], "it's": ["50% off"], '"x"': ["500 off"], "k\\s": ["a_b"], "' OR 1=1 --": ["axb"],
              "mixed": ["MiXed"], "%": ["50% off"], "_": ["a_b"], "'": ["50% off", "axb"], "') UNION SELECT 1,2,3,4,5,6 --": [], "\\": ["a_b"]}
    for query, found in wanted.items():
        equal([query, titles(searches()[query])], [query, found])
    equal(len(titles(searches()[""])), 5)


@check("sorting works, and unknown orders get 400")
def _sort():
    good = ("title", "-title", "created", "-created", "owner", "-owner")
    bad = ("id", "password", "title;--", "(SELECT 1)", "--title", "title desc", "", "-", "TITLE\x00", "case when 1 then title end")
    answers = asked(*NOTES, *(get("/", urlencode({"sort": sort})) for sort in good + bad))[len(NOTES):]
    equal([answer["status"] for answer in answers], [200] * len(good) + [400] * len(bad))
    equal(titles(answers[0]), ["50% off", "500 off", "MiXed", "a_b", "axb"])
    equal(titles(answers[1]), ["axb", "a_b", "MiXed", "500 off", "50% off"])


@once
def files():
    names = ["plan.txt", "a b&c%41#.txt", "../secret.txt", "/etc/passwd", "..", ".", ".hidden", "link", "dirlink/secret.txt", "folder", "folder/inner.txt",
             "a\x00b", "x" * 5000, "plan.txt/", "./plan.txt", "folder/../plan.txt", "\udcff.txt".encode("utf-8", "surrogateescape").decode("latin-1"), "none.txt"]
    return dict(zip(names, asked(*(get("/files/" + name) for name in names))))


@check("files of the uploads folder are delivered as downloads")
def _files():
    equal([files()["plan.txt"]["text"], files()["a b&c%41#.txt"]["text"]], ["plan", "odd"])
    expect((header(files()["plan.txt"], "Content-Disposition") or "").startswith("attachment"), files()["plan.txt"])


@check("nothing else is delivered")
def _outside():
    for name, answer in files().items():
        if name not in ("plan.txt", "a b&c%41#.txt"):
            expect(answer["status"] == 404, (name[:60], answer["status"]))
            expect("outside" not in answer["text"] and "root:" not in answer["text"], name[:60])


@check("a pipe is not delivered and does not block")
def _pipe():
    equal(ask(get("/files/plan.txt", cookie=cookies()[0]), timeout=20)[0]["status"], 200)
    equal(ask({"op": "pipe"}, get("/files/pipe", cookie=cookies()[0]))[1]["status"], 404)


EVIL = "\"'><script>alert(1)</script>&amp;"


@check("titles, texts and owners come out as text")
def _escaped():
    eve = cookies()[2]
    made, listed, shown = ask({**post("/notes", title=EVIL, text="</pre>" + EVIL), "cookie": eve}, get("/", cookie=eve), get("/notes/1", cookie=eve))
    equal(made["status"], 303)
    equal(titles(listed), [EVIL])
    for answer in (listed, shown):
        for bad in ("<script", "<i>", EVIL):
            expect(bad not in answer["text"], answer["text"][:400])
    expect(html.unescape(re.search(r"<pre>(.*?)</pre>", shown["text"], re.S).group(1)) == "</pre>" + EVIL, shown["text"])
    expect(html.unescape(re.search(r"<h1>(.*?)</h1>", shown["text"], re.S).group(1)) == EVIL)
    expect("<i>eve</i>" in html.unescape(listed["text"]))


@check("the search box and the login form come out as text")
def _forms():
    box, form, failed = asked(get("/", urlencode({"q": EVIL})), get("/login", urlencode({"next": "/" + EVIL})),
                              post("/login", user=EVIL, password="x", next="/" + EVIL))
    for answer, name, value in ((box, "q", EVIL), (form, "next", "/" + EVIL), (failed, "next", "/" + EVIL)):
        expect("<script" not in answer["text"], answer["text"])
        found = re.findall(rf'name="{name}" value="([^"]*)"', answer["text"])
        equal([html.unescape(text) for text in found], [value])


@check("an attachment link reaches the file with that very name")
def _link():
    names = ["plan.txt", "a b&c%41#.txt", EVIL, "../x?y", "javascript:alert(1)"]
    answers = asked(*(post("/notes", title="t", text="", attachment=name) for name in names), *(get(f"/notes/{n + 1}") for n in range(len(names))))
    for name, answer in zip(names, answers[len(names):]):
        address = html.unescape(re.search(r'<p><a href="([^"]*)">', answer["text"]).group(1))
        expect(address.startswith("/files/") and not set("?#<>\"' ") & set(address), address)
        equal(unquote(address[7:]), name)
        expect("<script" not in answer["text"])


@once
def forged():
    alice, bob, _, other = cookies()
    plain = "session=YWxpY2U="
    value = alice.split("=", 1)[1]
    tries = {"plain": plain, "other secret": other, "cut": alice[:-1], "longer": alice + "0", "empty": "session=", "only dots": "session=..", "dots": "session=a.b.c",
             "not ascii": "session=\u00e9.\u00e9.\u00e9", "quoted": 'session="', "no cookie": "", "bad header": "session", "huge": "session=" + "A" * 20000,
             "no signature": "session=" + value.rsplit(value[-65:-64] or ".", 1)[0], "padded": "session====", "percent": "session=%00%ff"}
    for position in range(0, len(value), 5):
        swapped = "A" if value[position] != "A" else "B"
        tries[f"byte {position}"] = "session=" + value[:position] + swapped + value[position + 1:]
    half = len(value) // 2
    tries["mixed"] = "session=" + bob.split("=", 1)[1][:half] + value[half:]
    return dict(zip(tries, ask(*(get("/", cookie=text) for text in tries.values()))))


@check("forged and broken cookies are no sessions")
def _forged():
    for name, answer in forged().items():
        expect(answer["status"] == 303 and header(answer, "Location").startswith("/login"), (name, answer["status"]))


@check("a signed cookie is a session, also beside other cookies and in another process")
def _session():
    alice = cookies()[0]
    answers = ask(get("/", cookie=alice), get("/", cookie="theme=dark; " + alice), get("/", cookie=alice, app="two"))
    equal([answer["status"] for answer in answers], [200, 200, 303])


@check("sessions last twelve hours")
def _expiry():
    answers = ask(*(get("/", cookie=cookies()[0], ahead=hours * 3600) for hours in (0, 11, 13, 1000)))
    equal([answer["status"] for answer in answers], [200, 200, 303, 303])


@check("a session ends with its user")
def _removed():
    answers = asked(get("/"), sql("DELETE FROM users WHERE name = 'alice'"), get("/"), post("/notes", title="t", text=""))
    equal([answers[0]["status"], answers[2]["status"], answers[3]["status"]], [200, 303, 403])


@check("the cookie has its attributes, when set and when cleared")
def _attributes():
    answers = asked(login(), post("/logout"))
    for answer in answers:
        parts = [part.strip().lower() for part in header(answer, "Set-Cookie").split(";")]
        expect({"httponly", "samesite=lax", "path=/"} <= set(parts), parts)


@check("only the owner deletes a note")
def _owner():
    bob = cookies()[1]
    steps = asked(post("/notes", title="mine", text=""), {**post("/notes/1/delete"), "cookie": bob}, get("/notes/1"), post("/notes/2/delete"),
                  {**post("/notes/1/delete"), "cookie": ""}, post("/notes/1/delete"), get("/notes/1"))
    equal([step["status"] for step in steps], [303, 403, 200, 404, 403, 303, 404])


@check("login goes to paths of this site only")
def _redirect():
    bad = ["//evil.example", "///evil.example", "https://evil.example", "/\\evil.example", "\\\\evil.example", "evil", "/a\r\nSet-Cookie: x=1", "/a\tb",
           "", " /x", "javascript:alert(1)", "/\t/evil.example", "/a\x7f", "/x\\y"]
    good = ["/", "/notes/1?x=1&y=2", "/?q=a%20b", "/notes/1#top"]
    answers = ask(*(login(next=target) for target in bad + good), login())
    equal([header(answer, "Location") for answer in answers], ["/"] * len(bad) + good + ["/"])


@check("passwords are salted and slow, old hashes are replaced at login")
def _passwords():
    old = hashlib.sha1(b"old password").hexdigest()
    rows = "SELECT password FROM users WHERE name IN ('new1', 'new2') ORDER BY name"
    added = [{"op": "add", "user": user, "password": "secret"} for user in ("new1", "new2")]
    again = ask(*added, login("new1"), login("new1", "Secret"), login("new2"))
    equal([answer["status"] for answer in again[2:]], [303, 403, 303])
    answers = ask(*added, sql(rows), sql("INSERT INTO users (name, password) VALUES ('dora', ?)", old), login("dora", "wrong"),
                  sql("SELECT password FROM users WHERE name = 'dora'"), login("dora", "old password"),
                  sql("SELECT password FROM users WHERE name = 'dora'"), login("dora", "old password"), login("dora", old))
    answers = answers[2:]
    (alice,), (bob,) = answers[0]
    sha1 = hashlib.sha1(b"secret").hexdigest()
    expect(alice != bob and sha1 not in alice and hashlib.sha256(b"secret").hexdigest() not in alice and len(alice) >= 48, (alice, bob))
    equal([answers[2]["status"], answers[3], answers[4]["status"], answers[6]["status"], answers[7]["status"]], [403, [[old]], 303, 303, 403])
    expect(answers[5] != [[old]] and old not in answers[5][0][0], "the old hash is still there")


@check("nothing else in the table logs anyone in")
def _odd_hashes():
    odd = ["", "x", "secret", "scrypt$", "scrypt$$", "scrypt$zz$zz", "$", "$$$", "pbkdf2$1$$", hashlib.sha1(b"secret").hexdigest() + "0", "\u00e9" * 40, "0" * 40]
    requests = []
    for stored in odd:
        requests += [sql("UPDATE users SET password = ? WHERE name = 'alice'", stored), login(), login(password=""), login(password=stored)]
    answers = ask(*requests)
    equal([answer["status"] for answer in answers if isinstance(answer, dict)], [403] * 3 * len(odd))


@check("a failed login does not tell whether the user exists")
def _silent():
    known, unknown = ask({"op": "add", "user": "alma", "password": "secret"}, login("alma", "wrong"), login("xalmax", "wrong"))[1:]
    equal([known["status"], unknown["status"]], [403, 403])
    equal(known["text"].replace("alma", "NAME"), unknown["text"].replace("xalmax", "NAME"))


@check("every answer carries the protective headers")
def _headers():
    answers = asked(get("/"), get("/login"), get("/none"), get("/", cookie=""), post("/login", user="x", password="y"), login(), get("/files/plan.txt"),
                    post("/notes", title=""), get("/", "sort=x"), post("/notes/9/delete"))
    for answer in answers:
        equal(header(answer, "X-Content-Type-Options"), "nosniff")
        expect("default-src 'none'" in (header(answer, "Content-Security-Policy") or ""), answer["headers"])


@check("odd lengths and numbers are client errors")
def _odd_numbers():
    answers = asked(*(post("/notes", title="t", length=text) for text in ("-1", "abc", "1e3", "99999999999", "\u0664")), get("/notes/" + "9" * 30),
                    post("/notes/" + "9" * 30 + "/delete"), get("/notes/9223372036854775808"))
    equal([answer["status"] for answer in answers], [400, 400, 400, 413, 400, 404, 404, 404])


@check("the original tests still pass")
def _regression():
    place = scratch()
    put(place, "original_test.py", hidden("original_test_notes.py"))
    code, passed, output = pytest_run(place, ["original_test.py"])
    expect(code == 0 and passed == 5, output[-800:])


@check("the repository's tests pass and were extended")
def _own():
    code, passed, output = pytest_run(scratch(), ["tests"])
    expect(code == 0 and passed > 5, output[-800:])
