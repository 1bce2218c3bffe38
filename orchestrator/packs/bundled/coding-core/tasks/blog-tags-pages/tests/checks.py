"""Checks of blog-tags-pages: builds of small sites through the command line, and the files they leave."""

import json
import os
import re

from harness import NODE, check, equal, expect, node_test_run, once, put, put_tree, run, scratch


def post(title, date, *more, body="text"):
    return "\n".join(["---", f"title: {title}", f"date: {date}", *more, "---", body, ""])


class Site:
    """One source folder beside a copy of the workspace; `out` is its target."""

    def __init__(self, posts, **site):
        self.place = scratch()
        self.write("src/site.json", json.dumps({"title": "Site", **site}))
        put(self.place, "src/posts/.keep", "")
        for name, text in posts.items():
            self.write(f"src/posts/{name}", text)

    def write(self, name, text):
        put(self.place, name, text)

    def build(self, *words, code=0):
        done = run([NODE, "bin/inkpot.js", *(words or ("build", "src", "out"))], self.place)
        expect(done.code == code, f"exit {done.code}: {done.stderr[-500:]}")
        return done.stderr.decode()

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


@once
def tagged():
    site = Site(TAGGED, base="/b")
    site.build()
    return site


@once
def paged():
    site = Site({f"p{n:02}.md": post(f"P{n:02}", f"2024-01-{n:02}") for n in range(1, 8)}, per_page=3, base="/x/")
    site.build()
    return site


@once
def drafted():
    site = Site({"a.md": post("A", "2024-01-01", "tags: one"), "b.md": post("B", "2024-01-02", "draft: true", "tags: ONE, two"),
                 "c.md": post("C", "2024-01-03", "draft: false")}, per_page=2)
    site.build()
    return site


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
    site = Site({"a.md": post("A", "2024-01-01", "tags: , ,")})
    site.build()
    equal(site.files(), ["feed.json", "index.html", "posts/a/index.html"])


@check("Unicode letters stay in slugs and are encoded in links")
def _unicode():
    site = Site({"a.md": post("A", "2024-01-01", "tags: Überfahrt №1")})
    site.build()
    expect('href="/tags/%C3%BCberfahrt-1/"' in site.read("posts/a/index.html"), site.read("posts/a/index.html"))
    equal(site.posts("tags/überfahrt-1/index.html"), ["A"])


@check("a tag named like an object property is an ordinary tag")
def _prototype():
    site = Site({"a.md": post("A", "2024-01-01", "tags: constructor, __proto__, toString")})
    site.build()
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
    site = Site({f"p{n}.md": post(f"P{n}", f"2024-01-0{n}") for n in range(1, 5)}, per_page=2)
    site.build()
    equal([name for name in site.files() if name.startswith("page/")], ["page/2/index.html"])


@check("ten posts a page by default, and tag pages are never split")
def _default():
    site = Site({f"p{n:02}.md": post(f"P{n:02}", f"2024-01-{n:02}", "tags: all") for n in range(1, 26)})
    site.build()
    equal([len(site.posts(name)) for name in ("index.html", "page/3/index.html", "tags/all/index.html")], [10, 5, 25])
    equal(len(json.loads(site.read("feed.json"))["items"]), 20)


@check("one page has no nav, and a site without posts has an index")
def _single():
    site = Site({})
    site.build()
    equal([site.posts("index.html"), site.nav("index.html"), site.files()], [[], None, ["feed.json", "index.html"]])


@check("a wrong per_page is refused before anything is written")
def _per_page():
    for value in (0, -1, 1.5, "3", None, True, [2]):
        site = Site({"a.md": post("A", "2024-01-01")}, per_page=value)
        equal(site.build("build", "src", "out", code=1), "inkpot: site.json: per_page must be a whole number from 1\n")
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
    site = drafted()
    for number, words in enumerate((["build", "--drafts", "src"], ["build", "src", "--drafts"])):
        site.build(*words, f"d{number}")
        expect("posts/b/index.html" in site.files(f"d{number}") and "page/2/index.html" in site.files(f"d{number}"))
    site.build("build", "src", "d3", "--drafts")
    expect("tags/two/index.html" in site.files("d3"))


@check("a wrong draft value is an error, also for a post that would be left out anyway")
def _draft_value():
    site = Site({"x.md": post("X", "2024-01-01", "draft: yes")})
    equal(site.build("build", "src", "out", code=1), "inkpot: posts/x.md: draft must be true or false\n")
    site = Site({"x.md": post("X", "2024-13-01", "draft: true")})
    equal(site.build("build", "src", "out", code=1), "inkpot: posts/x.md: date must be YYYY-MM-DD\n")


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
    site.build()
    for name in ("old.md", "mid.md", "new.md"):
        os.unlink(site.place / "src/posts" / name)
    site.build()
    equal(site.files(), ["feed.json", "index.html", "posts/none/index.html"])
    equal(sorted(name for name in os.listdir(site.place / "out") if not name.startswith(".")), ["feed.json", "index.html", "posts"])
    equal(os.listdir(site.place / "out/posts"), ["none"])


@check("files of the user are kept")
def _foreign():
    site = Site({"a.md": post("A", "2024-01-01"), "b.md": post("B", "2024-01-02")})
    site.write("out/CNAME", "x")
    site.build()
    site.write("out/posts/a/photo.jpg", "x")
    os.unlink(site.place / "src/posts/a.md")
    site.build()
    equal(site.files(), ["CNAME", "feed.json", "index.html", "posts/a/photo.jpg", "posts/b/index.html"])


@check("a damaged or missing list removes nothing")
def _damaged():
    for text in ("{", "null", "3", '{"files": 7}', ""):
        site = Site({"a.md": post("A", "2024-01-01"), "b.md": post("B", "2024-01-02")})
        site.build()
        (site.place / "out/.inkpot-files.json").write_text(text)
        os.unlink(site.place / "src/posts/a.md")
        site.build()
        expect("posts/a/index.html" in site.files(), f"list {text!r} led to a removal")
    site = Site({"b.md": post("B", "2024-01-02")})
    site.write("out/posts/a/index.html", "old")
    site.build()
    expect("posts/a/index.html" in site.files())


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
    for evil in ("../precious.txt", "posts/../../precious.txt", str(site.place / "precious.txt"), "posts/link/index.html"):
        listing.write_text(text.replace("posts/a/index.html", evil))
        site.build()
        expect((site.place / "precious.txt").is_file() and (site.place / "elsewhere/index.html").is_file(), evil)


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
    site = tagged()
    equal([run([NODE, "bin/inkpot.js", *words], site.place).code for words in ([], ["build", "src"], ["build", "a", "b", "c"],
           ["build", "--drafts", "src"], ["serve", "a", "b"])], [2, 2, 2, 2, 2])


@check("build() returns the pages and the feed")
def _returned():
    site = Site({"a.md": post("A", "2024-01-01", "draft: true")})
    done = run([NODE, "-e", "const {build} = require('./lib/site'); console.log(JSON.stringify("
                "[build('src', 'o1').files, build('src', 'o2', {drafts: true}).files]))"], site.place)
    equal([sorted(files) for files in json.loads(done.text)],
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
