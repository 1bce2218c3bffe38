"""Checks of blog-tags-pages: builds of small sites through the command line, and the files they leave."""

import json
import os
import re

from harness import NODE, ask_node, check, equal, expect, node_test_run, once, put, put_tree, run, scratch


def post(title, date, *more, body="text"):
    return "\n".join(["---", f"title: {title}", f"date: {date}", *more, "---", body, ""])


DRIVER = """
const fs = require('fs');
const { build, SourceError } = load('lib/site');
async function handle(step) {
  for (const name of step.remove || []) fs.unlinkSync(name);
  for (const [name, text] of Object.entries(step.write || {})) fs.writeFileSync(name, text);
  if (!step.source) return null;
  try { return build(step.source, step.target, step.options); }
  catch (error) { if (error instanceof SourceError) return { refused: error.message }; throw error; }
}
"""


class Site:
    """One source folder `src` beside a copy of the workspace; `out` is its target."""

    def __init__(self, posts, **site):
        self.place = scratch()
        self.write("src/site.json", json.dumps({"title": "Site", **site}))
        put(self.place, "src/posts/.keep", "")
        for name, text in posts.items():
            self.write(f"src/posts/{name}", text)

    def write(self, name, text):
        put(self.place, name, text)

    def build(self, *words, code=0):
        """The command line; returns what it says on standard error."""
        done = run([NODE, "bin/inkpot.js", *(words or ("build", "src", "out"))], self.place)
        expect(done.code == code, f"exit {done.code}: {done.stderr[-500:]}")
        return done.stderr.decode()

    def steps(self, *steps):
        """Several builds and changes of files in one child; returns its answers."""
        return ask_node(DRIVER, steps, self.place)

    def files(self, folder="out"):
        found = []
        for base, _, names in os.walk(self.place / folder):
            found += [os.path.relpath(os.path.join(base, name), self.place / folder) for name in names]
        return sorted(name for name in found if name != ".inkpot-files.json")

    def read(self, name):
        path = self.place / "out" / name
        expect(path.is_file() and not path.is_symlink(), f"{name} was not written; there are {self.files()}")
        return path.read_text()

    def posts(self, name):
        part = re.search(r'<ul class="posts">(.*?)</ul>', self.read(name), re.S)
        expect(part, f"no list of posts in {name}")
        return re.findall(r'<li><a href="[^"]*">([^<]*)</a> <time>', part.group(1))

    def nav(self, name):
        text = self.read(name)
        part = re.findall(r'<nav class="pages">(.*?)</nav>', text, re.S)
        expect(len(part) <= 1, "more than one nav")
        return re.findall(r'<a rel="(\w+)" href="([^"]*)">(\w+)</a>', part[0]) if part else None


TAGGED = {
    "old.md": post("Old", "2024-01-01", "tags: Boats,  Old  Harbour , c++,,boats"),
    "mid.md": post("Mid", "2024-02-01", "tags: BOATS!, <b>x"),
    "new.md": post("New", "2024-03-01", "tags: old-harbour"),
    "none.md": post("None", "2024-03-02"),
}


STATIC = {
    "tagged": (TAGGED, {"base": "/b"}),
    "paged": ({f"p{n:02}.md": post(f"P{n:02}", f"2024-01-{n:02}") for n in range(1, 8)}, {"per_page": 3, "base": "/x/"}),
    "drafted": ({"a.md": post("A", "2024-01-01", "tags: one"), "b.md": post("B", "2024-01-02", "draft: true", "tags: ONE, two"),
                 "c.md": post("C", "2024-01-03", "draft: false")}, {"per_page": 2}),
    "untagged": ({"a.md": post("A", "2024-01-01", "tags: , ,")}, {}),
    "unicode": ({"a.md": post("A", "2024-01-01", "tags: Überfahrt №1")}, {}),
    "property": ({"a.md": post("A", "2024-01-01", "tags: constructor, __proto__, toString")}, {}),
    "exact": ({f"p{n}.md": post(f"P{n}", f"2024-01-0{n}") for n in range(1, 5)}, {"per_page": 2}),
    "default": ({f"p{n:02}.md": post(f"P{n:02}", f"2024-01-{n:02}", "tags: all") for n in range(1, 26)}, {}),
    "empty": ({}, {}),
    "bad draft": ({"x.md": post("X", "2024-01-01", "draft: yes")}, {}),
    "bad date": ({"x.md": post("X", "2024-13-01", "draft: true")}, {}),
}


class Built(Site):
    """One of the static sites, which are all built by one child."""

    def __init__(self, place, answer):
        self.place, self.answer = place, answer


@once
def static():
    shared = Site({})
    for name, (posts, site) in STATIC.items():
        shared.write(f"{name}/src/site.json", json.dumps({"title": "Site", **site}))
        put(shared.place, f"{name}/src/posts/.keep", "")
        for file, text in posts.items():
            shared.write(f"{name}/src/posts/{file}", text)
    answers = shared.steps(*({"source": f"{name}/src", "target": f"{name}/out"} for name in STATIC))
    return {name: Built(shared.place / name, answer) for name, answer in zip(STATIC, answers)}


def site_of(name):
    return lambda: static()[name]


tagged, paged, drafted = site_of("tagged"), site_of("paged"), site_of("drafted")


@check("tag pages list their posts, newest first")
def _tag_pages():
    equal([tagged().posts(f"tags/{slug}/index.html") for slug in ("boats", "old-harbour", "c", "b-x")],
          [["Mid", "Old"], ["New", "Old"], ["Old"], ["Mid"]])


@check("a tag is shown in the spelling of the newest post")
def _spelling():
    expect("<h1>BOATS!</h1>" in tagged().read("tags/boats/index.html"))
    expect("<h1>old-harbour</h1>" in tagged().read("tags/old-harbour/index.html"))


@check("the tag list has counts and is ordered by slug")
def _tag_list():
    items = re.findall(r"<li>(.*?)</li>", re.search(r'<ul class="tags">(.*?)</ul>', tagged().read("tags/index.html"), re.S).group(1))
    equal(items, ['<a href="/b/tags/b-x/">&lt;b&gt;x</a> (1)', '<a href="/b/tags/boats/">BOATS!</a> (2)',
                  '<a href="/b/tags/c/">c++</a> (1)', '<a href="/b/tags/old-harbour/">old-harbour</a> (2)'])


@check("a post shows its tags in its own order, each once, after the time")
def _post_tags():
    expect('</time>\n<p class="tags"><a href="/b/tags/boats/">BOATS!</a>, <a href="/b/tags/old-harbour/">old-harbour</a>, '
           '<a href="/b/tags/c/">c++</a></p>\n' in tagged().read("posts/old/index.html"), tagged().read("posts/old/index.html"))


@check("a post without tags has no tag line")
def _no_tags():
    expect('class="tags"' not in tagged().read("posts/none/index.html"))


@check("exactly the expected files are written")
def _files():
    equal(tagged().files(), sorted(["index.html", "feed.json", "tags/index.html", *(f"posts/{n}/index.html" for n in
          ("old", "mid", "new", "none")), *(f"tags/{n}/index.html" for n in ("boats", "old-harbour", "c", "b-x"))]))


@check("no tag files without tags")
def _untagged():
    equal(static()["untagged"].files(), ["feed.json", "index.html", "posts/a/index.html"])


@check("Unicode letters stay in slugs and are encoded in links")
def _unicode():
    site = static()["unicode"]
    expect('href="/tags/%C3%BCberfahrt-1/"' in site.read("posts/a/index.html"), site.read("posts/a/index.html"))
    equal(site.posts("tags/überfahrt-1/index.html"), ["A"])


@check("a tag named like an object property is an ordinary tag")
def _prototype():
    site = static()["property"]
    equal([site.posts(f"tags/{slug}/index.html") for slug in ("constructor", "proto", "tostring")], [["A"]] * 3)


@check("a tag without letters or digits is an error")
def _bad_tag():
    site = Site({"x.md": post("X", "2024-01-01", "tags: ok, ++")})
    equal(site.build("build", "src", "out", code=1), 'inkpot: posts/x.md: tag "++" has no letters or digits\n')
    equal(site.files(), [])


@check("posts are split into pages of per_page")
def _pages():
    equal([paged().posts(name) for name in ("index.html", "page/2/index.html", "page/3/index.html")],
          [["P07", "P06", "P05"], ["P04", "P03", "P02"], ["P01"]])
    expect("page/4/index.html" not in paged().files() and "page/1/index.html" not in paged().files())


@check("pages link to their neighbours")
def _nav():
    equal([paged().nav(name) for name in ("index.html", "page/2/index.html", "page/3/index.html")],
          [[("next", "/x/page/2/", "Older")], [("prev", "/x/", "Newer"), ("next", "/x/page/3/", "Older")],
           [("prev", "/x/page/2/", "Newer")]])


@check("a full last page is not followed by an empty one")
def _exact():
    equal([name for name in static()["exact"].files() if name.startswith("page/")], ["page/2/index.html"])


@check("ten posts a page by default, and tag pages are never split")
def _default():
    site = static()["default"]
    equal([len(site.posts(name)) for name in ("index.html", "page/3/index.html", "tags/all/index.html")], [10, 5, 25])
    equal(len(json.loads(site.read("feed.json"))["items"]), 20)


@check("one page has no nav, and a site without posts has an index")
def _single():
    site = static()["empty"]
    equal([site.posts("index.html"), site.nav("index.html"), site.files()], [[], None, ["feed.json", "index.html"]])


@check("a wrong per_page is refused before anything is written")
def _per_page():
    site = Site({"a.md": post("A", "2024-01-01")})
    steps = [{"write": {"src/site.json": json.dumps({"title": "S", "per_page": value})}, "source": "src", "target": "out"}
             for value in (0, -1, 1.5, "3", None, True, [2])]
    equal(site.steps(*steps), [{"ok": {"refused": "site.json: per_page must be a whole number from 1"}}] * 7)
    equal(site.files(), [])


@check("drafts are left out everywhere")
def _drafts():
    site = drafted()
    equal([site.posts("index.html"), site.posts("tags/one/index.html"), site.nav("index.html")], [["C", "A"], ["A"], None])
    expect("posts/b/index.html" not in site.files() and "tags/two/index.html" not in site.files())
    equal([item["title"] for item in json.loads(site.read("feed.json"))["items"]], ["C", "A"])
    expect("<h1>one</h1>" in site.read("tags/one/index.html"), "a draft's spelling is used")


@check("--drafts includes them, wherever it stands")
def _with_drafts():
    posts, config = STATIC["drafted"]
    site = Site(posts, **config)
    for number, words in enumerate((["build", "--drafts", "src"], ["build", "src", "--drafts"])):
        site.build(*words, f"d{number}")
        expect("posts/b/index.html" in site.files(f"d{number}") and "page/2/index.html" in site.files(f"d{number}"))
    site.build("build", "src", "d3", "--drafts")
    expect("tags/two/index.html" in site.files("d3"))
    site.build("build", "src", "d4")
    expect("posts/b/index.html" not in site.files("d4"))


@check("a wrong draft value is an error, also for a post that would be left out anyway")
def _draft_value():
    equal([static()["bad draft"].answer, static()["bad date"].answer],
          [{"ok": {"refused": "posts/x.md: draft must be true or false"}}, {"ok": {"refused": "posts/x.md: date must be YYYY-MM-DD"}}])
    equal(static()["bad draft"].files() + static()["bad date"].files(), [])


@check("the feed has the agreed fields")
def _feed():
    feed = json.loads(tagged().read("feed.json"))
    equal([feed["version"], feed["title"], len(feed["items"])], ["https://jsonfeed.org/version/1.1", "Site", 4])
    equal(feed["items"][0], {"id": "/b/posts/none/", "url": "/b/posts/none/", "title": "None", "content_html": "<p>text</p>",
                             "date_published": "2024-03-02T00:00:00Z", "tags": []})
    equal(feed["items"][3]["tags"], ["BOATS!", "old-harbour", "c++"])


@check("a rebuild removes what it no longer writes, and empty folders")
def _stale():
    site = Site(dict(TAGGED), per_page=1)
    build = {"source": "src", "target": "out"}
    site.steps(build, {"remove": [f"src/posts/{name}.md" for name in ("old", "mid", "new")], **build})
    equal(site.files(), ["feed.json", "index.html", "posts/none/index.html"])
    equal(sorted(name for name in os.listdir(site.place / "out") if not name.startswith(".")), ["feed.json", "index.html", "posts"])
    equal(os.listdir(site.place / "out/posts"), ["none"])


@check("files of the user are kept")
def _foreign():
    site = Site({"a.md": post("A", "2024-01-01"), "b.md": post("B", "2024-01-02")})
    site.write("out/CNAME", "x")
    build = {"source": "src", "target": "out"}
    site.steps(build, {"write": {"out/posts/a/photo.jpg": "x"}, "remove": ["src/posts/a.md"], **build})
    equal(site.files(), ["CNAME", "feed.json", "index.html", "posts/a/photo.jpg", "posts/b/index.html"])


@check("a damaged or missing list removes nothing")
def _damaged():
    site = Site({"a.md": post("A", "2024-01-01"), "b.md": post("B", "2024-01-02")})
    targets = {}
    for number, text in enumerate(("{", "null", "3", '{"files": 7}', "", "[[]]", '[null, 3, {"x": 1}, ""]', '["posts/a"]', None)):
        targets[f"out{number}"] = text
    site.steps(*({"source": "src", "target": target} for target in targets))
    for target, text in targets.items():
        expect((site.place / target / ".inkpot-files.json").is_file(), "no list file")
        (site.place / target / ".inkpot-files.json").unlink() if text is None else (site.place / target / ".inkpot-files.json").write_text(text)
    site.steps({"remove": ["src/posts/a.md"]}, *({"source": "src", "target": target} for target in targets))
    for target, text in targets.items():
        expect("posts/a/index.html" in site.files(target), f"list {text!r} led to a removal")


@check("list entries outside the target, or through links, are ignored")
def _escape():
    site = Site({"a.md": post("A", "2024-01-01"), "b.md": post("B", "2024-01-02")})
    site.build()
    site.write("precious.txt", "x")
    site.write("elsewhere/index.html", "x")
    os.symlink("../../elsewhere", site.place / "out/posts/link")
    listing = site.place / "out/.inkpot-files.json"
    expect(listing.is_file(), "no list file")
    text = listing.read_text()
    expect("posts/a/index.html" in text, "the list does not name its files")
    evils = ("../precious.txt", "posts/../../precious.txt", str(site.place / "precious.txt"), "posts/link/index.html")
    answers = site.steps(*({"write": {"out/.inkpot-files.json": text.replace("posts/a/index.html", evil)}, "source": "src",
                            "target": "out"} for evil in evils))
    expect(all("files" in answer.get("ok", {}) for answer in answers), answers)
    expect((site.place / "precious.txt").is_file() and (site.place / "elsewhere/index.html").is_file(), "removed a foreign file")


@check("a failing build leaves the target as it was")
def _atomic():
    site = Site({"a.md": post("A", "2024-01-01"), "b.md": post("B", "2024-01-02")})
    site.build()
    before = {name: site.read(name) for name in site.files()}
    os.unlink(site.place / "src/posts/a.md")
    site.write("src/posts/b.md", post("New text", "2024-01-02", "tags: !"))
    site.build("build", "src", "out", code=1)
    equal({name: site.read(name) for name in site.files()}, before)


@check("wrong usage still ends with 2")
def _usage():
    site = Site({})
    equal([run([NODE, "bin/inkpot.js", *words], site.place).code for words in (["build", "a", "b", "c"], ["build", "--drafts", "src"])], [2, 2])


@check("build() returns the pages and the feed")
def _returned():
    site = Site({"a.md": post("A", "2024-01-01", "draft: true")})
    answers = site.steps({"source": "src", "target": "o1"}, {"source": "src", "target": "o2", "options": {"drafts": True}})
    equal([sorted(answer["ok"]["files"]) for answer in answers],
          [["feed.json", "index.html"], ["feed.json", "index.html", "posts/a/index.html"]])


@check("the original tests still pass")
def _regression():
    place = scratch()
    put_tree(place, "original", "original")
    code, passed, output = node_test_run(place, ["original/site.test.js", "original/markdown.test.js"])
    expect(code == 0 and passed == 6, output[-800:])


@check("the repository's tests pass and were extended")
def _own():
    place = scratch()
    names = sorted(str(path.relative_to(place)) for path in (place / "test").rglob("*.test.js"))
    code, passed, output = node_test_run(place, names)
    expect(code == 0 and passed > 6, output[-800:])
