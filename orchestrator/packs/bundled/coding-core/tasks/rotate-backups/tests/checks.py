"""Checks of rotate-backups: folders made here, thinned out by the tool in a child, and compared with a model."""

import datetime
import os
import random
import re

from harness import check, equal, expect, hidden, put, run, scratch

PATTERN = re.compile(r"(.*)-([0-9]{8})-([0-9]{4})\.tar\.gz", re.S)


def stamp_of(name):
    """(series, datetime) of a backup's name, or None."""
    match = PATTERN.fullmatch(name)
    if not match or "\n" in name:
        return None
    try:
        return match[1], datetime.datetime.strptime(match[2] + match[3], "%Y%m%d%H%M")
    except ValueError:
        return None


def model(names, days=7, weeks=4, months=6):
    """The names to remove, in the order of their bytes."""
    series = {}
    for name in names:
        found = stamp_of(name)
        if found:
            series.setdefault(found[0], []).append((found[1], name))
    drop = []
    for entries in series.values():
        entries.sort(reverse=True)
        keep = {entries[0][1]}
        for limit, period in ((days, lambda t: t.date()), (weeks, lambda t: t.isocalendar()[:2]), (months, lambda t: (t.year, t.month))):
            firsts = {}
            for moment, name in entries:
                firsts.setdefault(period(moment), name)
            keep.update(list(firsts.values())[:limit])
        drop += [name for _, name in entries if name not in keep]
    return sorted(drop, key=os.fsencode)


class Folder:
    """A copy of the workspace with a folder of empty files."""

    def __init__(self, names, folder="backups"):
        self.place, self.folder, self.names = scratch(), folder, list(names)
        os.mkdir(self.place / folder)
        os.chmod(self.place / folder, 0o777)
        for name in names:
            put(self.place / folder, name, "")

    def rotate(self, *options, target=None, cwd=None):
        return run(["/bin/bash", str(self.place / "bin/rotate"), *options, target or self.folder], cwd or self.place)

    def left(self):
        return sorted(os.listdir(self.place / self.folder), key=os.fsencode)

    def agrees(self, options=(), **limits):
        """Run for real and compare output, exit code and what is left."""
        drop = model(self.names, **limits)
        backups = sum(stamp_of(name) is not None for name in self.names)
        done = self.rotate(*options)
        lines = [f"removed {name}" for name in drop] + [f"{backups - len(drop)} kept, {len(drop)} removed"]
        equal([done.text.splitlines(), done.code, done.stderr.decode("utf-8", "replace")], [lines, 0, ""])
        equal(self.left(), sorted(set(self.names) - set(drop), key=os.fsencode))


def nightly(series, last, count, step=1, time="0400"):
    return [f"{series}-{last - datetime.timedelta(days=step * i):%Y%m%d}-{time}.tar.gz" for i in range(count)]


D = datetime.date


@check("a year of nightly backups with the defaults")
def _year():
    Folder(nightly("db", D(2024, 5, 17), 400)).agrees()


@check("several backups a day: the newest of a day stays")
def _several():
    names = [name for time in ("0000", "0400", "1600", "2359") for name in nightly("db", D(2024, 5, 3), 5, time=time)]
    Folder(names).agrees(("-d", "3", "-w", "0", "-m", "0"), days=3, weeks=0, months=0)


@check("every series has its own days, weeks and months")
def _series():
    names = nightly("db", D(2024, 1, 20), 60) + nightly("web", D(2024, 5, 17), 60) + nightly("old", D(2021, 3, 3), 9) + ["one-20190101-0000.tar.gz"]
    Folder(names).agrees(("-d", "2", "-w", "2", "-m", "2"), days=2, weeks=2, months=2)


@check("a series may end like a date, and one name may begin with another")
def _nested():
    names = nightly("db", D(2024, 5, 3), 4) + nightly("db-20240501-0400", D(2024, 5, 3), 4) + nightly("d", D(2024, 5, 2), 4) + nightly("db-x", D(2024, 5, 2), 4)
    Folder(names).agrees(("-d", "1", "-w", "0", "-m", "0"), days=1, weeks=0, months=0)


@check("months of different years are different months")
def _months():
    Folder(nightly("db", D(2024, 2, 1), 40, step=31)).agrees(("-d", "0", "-w", "0", "-m", "14"), days=0, weeks=0, months=14)


@check("weeks are ISO weeks, also around the new year")
def _weeks():
    for last in (D(2021, 1, 10), D(2016, 1, 8), D(2020, 1, 6), D(2024, 3, 5)):
        Folder(nightly("db", last, 40)).agrees(("-d", "0", "-w", "5", "-m", "0"), days=0, weeks=5, months=0)


@check("days without a backup do not count")
def _gaps():
    Folder(nightly("db", D(2024, 5, 17), 30, step=9)).agrees(("-d", "4", "-w", "0", "-m", "0"), days=4, weeks=0, months=0)


@check("with all limits at zero the newest stays")
def _zero():
    Folder(nightly("db", D(2024, 5, 17), 5) + nightly("x", D(2023, 5, 17), 3)).agrees(("-d", "0", "-w", "0", "-m", "0"), days=0, weeks=0, months=0)


ODD = ["web site", "  two  blanks ", "-n", "-rf", "*", "?", "[a]", "$(touch pwned)", "`id`", "a;b", "a'b", 'a"b', "a\\b", "\\n", "%s%d", "tab\there", "é", "keep:x", "drop:", "",
       "a&b", "~", ".hidden", "#x", "!x", "{a,b}", "a-20240101", "x.tar.gz"]


@check("odd file names are handled and listed as they are")
def _odd():
    names = [name for series in ODD for name in nightly(series, D(2024, 5, 3), 3)]
    folder = Folder(names)
    folder.agrees(("-d", "1", "-w", "0", "-m", "0"), days=1, weeks=0, months=0)
    expect(not (folder.place / "pwned").exists(), "a file name was executed")


@check("a name that is not valid UTF-8")
def _bytes():
    folder = Folder([])
    for day in (1, 2, 3):
        put(folder.place / "backups", os.fsdecode(b"\xff\xfe-2024050%d-0400.tar.gz" % day), "")
    done = folder.rotate("-d", "1", "-w", "0", "-m", "0")
    equal(done.code, 0)
    equal(done.stdout.decode("latin-1").splitlines(), ["removed \xff\xfe-20240501-0400.tar.gz", "removed \xff\xfe-20240502-0400.tar.gz", "1 kept, 2 removed"])


@check("files with a newline in their name are left alone")
def _newline():
    names = nightly("db", D(2024, 5, 3), 3) + nightly("a\nb", D(2024, 5, 3), 3) + ["x\ndb-20240501-0400.tar.gz"]
    Folder(names).agrees(("-d", "1", "-w", "0", "-m", "0"), days=1, weeks=0, months=0)


OTHERS = ["notes-2024-1.tar.gz", "x-20240501-0400.tar.gz.part", "x-20240501-0400.tar", "x-20240501-0400.tgz", "x-202405011-0400.tar.gz", "x-20240501-04000.tar.gz",
          "x20240501-0400.tar.gz", "x-20240501_0400.tar.gz", "x-20240230-1200.tar.gz", "x-20230229-1200.tar.gz", "x-19000229-1200.tar.gz", "x-20241301-1200.tar.gz",
          "x-20240001-1200.tar.gz", "x-20240500-1200.tar.gz", "x-20240431-1200.tar.gz", "x-20240501-2400.tar.gz", "x-20240501-1260.tar.gz", "x-20240501-0400Xtar.gz"]


@check("files that are no backups are never touched")
def _others():
    Folder(OTHERS + nightly("x", D(2000, 3, 2), 4) + ["x-20240229-0400.tar.gz"]).agrees(("-d", "1", "-w", "0", "-m", "0"), days=1, weeks=0, months=0)


@check("folders and links that are named like backups do not count")
def _not_files():
    folder = Folder(nightly("db", D(2024, 5, 3), 3))
    os.mkdir(folder.place / "backups/db-20240504-0400.tar.gz")
    os.symlink("db-20240501-0400.tar.gz", folder.place / "backups/db-20240505-0400.tar.gz")
    os.symlink("absent", folder.place / "backups/db-20240506-0400.tar.gz")
    os.mkfifo(folder.place / "backups/db-20240507-0400.tar.gz")
    done = folder.rotate("-d", "1", "-w", "0", "-m", "0")
    equal([done.text, done.code], ["removed db-20240501-0400.tar.gz\nremoved db-20240502-0400.tar.gz\n1 kept, 2 removed\n", 0])
    equal(len(folder.left()), 5)


@check("a dry run removes nothing and says so")
def _dry():
    names = nightly("web site", D(2024, 5, 3), 5)
    folder = Folder(names)
    done = folder.rotate("-n", "-d", "2", "-w", "1", "-m", "1")
    drop = model(names, 2, 1, 1)
    equal(done.text.splitlines(), [*(f"would remove {name}" for name in drop), f"{5 - len(drop)} kept, {len(drop)} to remove"])
    equal(folder.left(), sorted(names))


@check("an empty folder, and one without backups")
def _empty():
    for names in ([], ["readme.txt"]):
        done = Folder(names).rotate()
        equal([done.text, done.code, done.stderr.decode()], ["0 kept, 0 removed\n", 0, ""])


@check("a missing folder, or a file, removes nothing anywhere")
def _missing():
    folder = Folder(nightly("db", D(2024, 5, 3), 30))
    inside = folder.place / "backups"
    for target in ("absent", "db-20240503-0400.tar.gz", ""):
        done = run(["/bin/bash", str(folder.place / "bin/rotate"), "-d", "1", "-w", "0", "-m", "0", target], inside)
        equal([done.code, done.text], [2, ""])
        expect(done.stderr, "nothing on standard error")
    equal(len(folder.left()), 30)


@check("wrong usage removes nothing")
def _usage():
    folder = Folder(nightly("db", D(2024, 5, 3), 30))
    for options in (("-d", "seven"), ("-d", "-1"), ("-w", ""), ("-m", "1.5"), ("-d", "0x10"), ("-x",), ("-d", "3 "), ("extra",)):
        done = folder.rotate(*options)
        equal([list(options), done.code, done.text], [list(options), 2, ""])
    equal(run(["/bin/bash", "bin/rotate"], folder.place).code, 2)
    equal(len(folder.left()), 30)


@check("numbers with leading zeros are decimal")
def _zeros():
    Folder(nightly("db", D(2024, 5, 17), 20)).agrees(("-d", "010", "-w", "08", "-m", "0"), days=10, weeks=8, months=0)


@check("odd names of the folder, and a tool in a folder with a blank")
def _folders():
    for name in ("my backups", "-backups", "*", "$x"):
        folder = Folder(nightly("db", D(2024, 5, 3), 3), folder=name)
        done = run(["/bin/bash", "bin/rotate", "-d", "1", "-w", "0", "-m", "0", "--", name], folder.place)
        equal([done.text.splitlines()[-1:], done.code], [["1 kept, 2 removed"], 0])
    folder = Folder(nightly("db", D(2024, 5, 3), 3))
    run(["/bin/bash", "-c", "mkdir 'the tool' && cp -r bin lib 'the tool'"], folder.place)
    done = run(["/bin/bash", "the tool/bin/rotate", "-d", "1", "-w", "0", "-m", "0", "backups/"], folder.place)
    equal([done.text.splitlines()[-1:], done.code], [["1 kept, 2 removed"], 0])


@check("a file that cannot be removed is reported, counts as kept, and the others still go")
def _stubborn():
    folder = Folder(nightly("db", D(2024, 5, 4), 4))
    put(folder.place, "fake/rm", '#!/bin/bash\nfor word; do case $word in *20240502*) echo no >&2; exit 1;; esac; done\nexec /bin/rm "$@"\n', 0o777)
    done = run(["/bin/bash", "bin/rotate", "-d", "1", "-w", "0", "-m", "0", "backups"], folder.place, env={"PATH": f"{folder.place}/fake:/usr/bin:/bin"})
    equal([done.text, done.code], ["removed db-20240501-0400.tar.gz\nremoved db-20240503-0400.tar.gz\n2 kept, 2 removed\n", 1])
    expect("rotate: cannot remove db-20240502-0400.tar.gz\n" in done.stderr.decode(), done.stderr)
    equal(folder.left(), ["db-20240502-0400.tar.gz", "db-20240504-0400.tar.gz"])


@check("random folders agree with the model")
def _random():
    rng = random.Random(11)
    for _ in range(6):
        names = set()
        for _ in range(rng.randrange(150)):
            day = D(2023, 10, 1) + datetime.timedelta(days=rng.randrange(220))
            names.add(f"{rng.choice(['a', 'a b', 'c-1'])}-{day:%Y%m%d}-{rng.randrange(24):02}{rng.randrange(60):02}.tar.gz")
        limits = [rng.randrange(6) for _ in range(3)]
        Folder(sorted(names)).agrees(("-d", str(limits[0]), "-w", str(limits[1]), "-m", str(limits[2])), days=limits[0], weeks=limits[1], months=limits[2])


@check("only bash, awk and coreutils are used")
def _tools():
    folder = Folder(nightly("db", D(2024, 5, 3), 3))
    tools = "awk mawk gawk basename cat cd cut date dirname expr find grep head ls mktemp printf pwd readlink realpath rm sed sort stat tail tr uniq wc xargs env bash sh test comm"
    run(["/bin/bash", "-c", f"mkdir tools; for t in {tools}; do p=$(type -P $t) && ln -s $p tools/$t; done; true"], folder.place)
    done = run(["/bin/bash", "bin/rotate", "-d", "1", "-w", "0", "-m", "0", "backups"], folder.place, env={"PATH": f"{folder.place}/tools"})
    equal([done.text.splitlines()[-1:], done.code], [["1 kept, 2 removed"], 0])


@check("the original tests still pass")
def _regression():
    place = scratch()
    put(place, "test/run.sh", hidden("original_run.sh"), 0o777)
    done = run(["/bin/bash", "test/run.sh"], place)
    expect(done.code == 0 and done.text.count("ok: ") == 5, done.text)


@check("the repository's tests pass and were extended")
def _own():
    done = run(["/bin/bash", "test/run.sh"], scratch())
    expect(done.code == 0 and done.text.count("ok: ") > 5 and "FAILED" not in done.text, done.text[-800:])
