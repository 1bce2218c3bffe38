"""Checks of cron-next-run: answers of the library against values worked out by hand or by brute force."""

from datetime import datetime, timedelta

from harness import ask_python, check, equal, expect, once, put_tree, pytest_run, run, scratch, PYTHON

DRIVER = """
from datetime import datetime
import tickwise
from tickwise.jobs import agenda, load_jobs
def handle(q):
    at = datetime.fromisoformat(q.get("at", "2024-01-01T00:00:00"))
    if q["op"] == "next": return tickwise.parse(q["text"]).next_after(at).isoformat()
    if q["op"] == "up": return [m.isoformat() for m in tickwise.parse(q["text"]).upcoming(at, q["count"])]
    if q["op"] == "month": return [d.day for d in tickwise.parse(q["text"]).runs_in_month(q["y"], q["m"])]
    if q["op"] == "match": return tickwise.parse(q["text"]).matches(at)
    if q["op"] == "agenda": return [[m.isoformat(), n] for m, n in agenda(load_jobs(q["text"]), at, q["count"])]
"""

NEXT = [
    ("day or weekday, weekday first", "0 8 1,15 * mon", "2024-05-02T00:00:00", "2024-05-06T08:00:00"),
    ("day or weekday, day first", "0 8 1,15 * mon", "2024-05-14T00:00:00", "2024-05-15T08:00:00"),
    ("star day with weekday stays an and", "0 8 * * tue", "2024-05-01T00:00:00", "2024-05-07T08:00:00"),
    ("step over all days counts as restricted", "0 0 */10 * sun", "2024-05-02T00:00:00", "2024-05-05T00:00:00"),
    ("stepped weekday counts as restricted", "0 0 13 * */6", "2024-05-06T00:00:00", "2024-05-11T00:00:00"),
    ("list with a star item is restricted too", "0 0 1 * 1,*/7", "2024-05-02T00:00:00", "2024-05-05T00:00:00"),
    ("steps count from the range start", "5-59/20 * * * *", "2024-05-02T10:05:00", "2024-05-02T10:25:00"),
    ("last step of a range", "10-40/15 * * * *", "2024-05-02T10:25:00", "2024-05-02T10:40:00"),
    ("steps of days start at 1", "0 0 */10 * *", "2024-05-01T12:00:00", "2024-05-11T00:00:00"),
    ("steps of months start at january", "0 0 1 */5 *", "2024-02-01T00:00:00", "2024-06-01T00:00:00"),
    ("seven is sunday", "0 0 * * 7", "2024-05-02T00:00:00", "2024-05-05T00:00:00"),
    ("range up to seven", "0 0 * * 6-7", "2024-05-04T00:00:00", "2024-05-05T00:00:00"),
    ("weekdays wrap", "0 0 * * fri-mon", "2024-05-06T00:00:00", "2024-05-10T00:00:00"),
    ("weekdays wrap includes monday", "0 0 * * FRI-Mon", "2024-05-05T00:00:00", "2024-05-06T00:00:00"),
    ("wrapped weekdays by step", "0 0 * * sat-tue/2", "2024-05-05T00:00:00", "2024-05-06T00:00:00"),
    ("months wrap", "0 0 1 nov-feb *", "2024-02-02T00:00:00", "2024-11-01T00:00:00"),
    ("months wrap past the year", "0 0 1 nov-feb *", "2024-12-02T00:00:00", "2025-01-01T00:00:00"),
    ("leap day", "0 0 29 2 *", "2025-01-01T00:00:00", "2028-02-29T00:00:00"),
    ("leap day over 2100", "0 0 29 2 *", "2096-02-29T00:00:00", "2104-02-29T00:00:00"),
    ("minutes restart with the hour", "0,15 * * * *", "2024-05-02T10:50:00", "2024-05-02T11:00:00"),
    ("minute restart at the year end", "10 * * * *", "2024-12-31T23:30:00", "2025-01-01T00:10:00"),
    ("strictly after", "0 8 * * *", "2024-05-02T08:00:00", "2024-05-03T08:00:00"),
    ("seconds are cleared", "0 8 * * *", "2024-05-02T07:59:59.250000", "2024-05-02T08:00:00"),
    ("question within the minute", "0 8 * * *", "2024-05-02T08:00:01", "2024-05-03T08:00:00"),
    ("last minute of the day", "59 23 * * *", "2024-05-02T23:59:00", "2024-05-03T23:59:00"),
]


@once
def workspace():
    return scratch()


def ask(*requests):
    return ask_python(DRIVER, list(requests), workspace())


@once
def answers():
    return ask(*({"op": "next", "text": text, "at": at} for _, text, at, _ in NEXT))


def _add(number, name, wanted):
    @check(name)
    def _one():
        equal(answers()[number], {"ok": wanted})


for _number, (_name, _, _, _wanted) in enumerate(NEXT):
    _add(_number, _name, _wanted)


@check("upcoming gives every minute of a job that always runs")
def _upcoming():
    wanted = [f"2024-05-02T10:{minute:02}:00" for minute in (58, 59)] + ["2024-05-02T11:00:00"]
    equal(ask({"op": "up", "text": "* * * * *", "at": "2024-05-02T10:57:30", "count": 3}), [{"ok": wanted}])


@check("a thousand runs equal a brute-force walk over the minutes")
def _brute():
    start, runs = datetime(2024, 2, 26, 22, 7), []
    moment = start
    while len(runs) < 1000:
        moment += timedelta(minutes=1)
        sunday_based = (moment.weekday() + 1) % 7
        if moment.minute in (3, 17, 31, 45, 59) and moment.hour % 5 == 2 and (
                moment.day in (1, 8, 15, 22, 29) or sunday_based in (5, 6, 0)):
            runs.append(moment.isoformat())
    text = "3-59/14 2-23/5 */7 * fri-sun"
    equal(ask({"op": "up", "text": text, "at": start.isoformat(), "count": 1000}), [{"ok": runs}])


@check("days of a month follow the either-or rule")
def _month():
    equal(ask({"op": "month", "text": "0 0 1,15 * mon", "y": 2024, "m": 5}), [{"ok": [1, 6, 13, 15, 20, 27]}])


@check("matches agrees with next_after")
def _matches():
    answers = ask({"op": "match", "text": "5 4 13 * fri", "at": "2024-05-17T04:05:00"},
                  {"op": "match", "text": "5 4 13 * fri", "at": "2024-05-13T04:05:00"},
                  {"op": "match", "text": "5 4 13 * fri", "at": "2024-05-14T04:05:00"})
    equal(answers, [{"ok": True}, {"ok": True}, {"ok": False}])


@check("impossible days still never run, and do not hang")
def _never():
    answers = ask({"op": "next", "text": "0 0 30 2 *"}, {"op": "next", "text": "0 0 31 4,6,9,11 *"})
    equal([answer.get("error") for answer in answers], ["NeverRuns", "NeverRuns"])


@check("bad expressions are still refused with the field's name")
def _bad():
    cases = [("61 * * * *", "minute"), ("* 24 * * *", "hour"), ("* * 0 * *", "day-of-month"), ("* * * 13 *", "month"),
             ("* * * * 8", "day-of-week"), ("40-10 * * * *", "minute"), ("* 22-4 * * *", "hour"),
             ("* * 28-3 * *", "day-of-month"), ("*/0 * * * *", "minute"), ("5/2 * * * *", "minute")]
    for (_, field), answer in zip(cases, ask(*({"op": "next", "text": text} for text, _ in cases))):
        expect(answer.get("error") == "BadExpression" and field in answer["message"], answer)


@check("the agenda leaves out jobs that never run and keeps its order")
def _agenda():
    text = "b: 0 6 * * 7\na: 0 6 * * sun\nx: 0 0 31 2 *\n"
    wanted = [["2024-01-07T06:00:00", "a"], ["2024-01-07T06:00:00", "b"], ["2024-01-14T06:00:00", "a"]]
    equal(ask({"op": "agenda", "text": text, "count": 3}), [{"ok": wanted}])


@check("the command line prints minutes")
def _cli():
    done = run([PYTHON, "-B", "-m", "tickwise", "next", "5-59/20 9 * * 7", "--after", "2024-05-02T08:50:10",
                "--count", "3"], workspace())
    equal(done.text, "2024-05-05T09:05\n2024-05-05T09:25\n2024-05-05T09:45\n")


@check("the original tests still pass")
def _regression():
    place = scratch()
    put_tree(place, "original", "original_tests")
    code, passed, output = pytest_run(place, ["original_tests"])
    expect(code == 0 and passed == 23, output)


@check("the repository's own tests pass and were extended")
def _own():
    code, passed, output = pytest_run(scratch(), ["tests"])
    expect(code == 0 and passed > 23, output)
