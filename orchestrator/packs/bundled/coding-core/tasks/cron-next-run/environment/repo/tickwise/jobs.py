"""Job files: one job a line, `name: expression`, `#` starts a comment."""

from dataclasses import dataclass

from tickwise.errors import BadExpression, NeverRuns
from tickwise.schedule import Schedule, parse


@dataclass(frozen=True)
class Job:
    name: str
    schedule: Schedule


def load_jobs(text):
    """Parse a job file; raises BadExpression with the line number."""
    jobs = []
    seen = set()
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        name, colon, expression = line.partition(":")
        name = name.strip()
        if not colon or not name:
            raise BadExpression(f"line {number}: expected 'name: expression'")
        if name in seen:
            raise BadExpression(f"line {number}: job {name!r} is defined twice")
        seen.add(name)
        try:
            jobs.append(Job(name, parse(expression)))
        except BadExpression as error:
            raise BadExpression(f"line {number}: {error}") from error
    return jobs


def agenda(jobs, moment, count):
    """The next `count` (moment, job name) pairs over all jobs, by time and then by name.

    Jobs that never run are left out.
    """
    entries = []
    for job in jobs:
        try:
            entries.extend((run, job.name) for run in job.schedule.upcoming(moment, count))
        except NeverRuns:
            continue
    return sorted(entries)[:count]
