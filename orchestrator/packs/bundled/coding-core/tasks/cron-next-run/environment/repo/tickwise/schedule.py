"""A parsed expression and the search for its next run."""

import calendar
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from tickwise.errors import BadExpression, NeverRuns
from tickwise.fields import SPECS, Field, parse_field

SEARCH_DAYS = 366


@dataclass(frozen=True)
class Schedule:
    """When a job runs."""

    text: str
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    def matches_day(self, day):
        """True if the job runs at some time of the calendar day."""
        if day.month not in self.month.values:
            return False
        sunday_based = (day.weekday() + 1) % 7
        return day.day in self.day.values and sunday_based in self.weekday.values

    def matches(self, moment):
        """True if the job runs in the minute of `moment`."""
        return (
            self.matches_day(moment.date())
            and moment.hour in self.hour.values
            and moment.minute in self.minute.values
        )

    def next_after(self, moment):
        """First run strictly after `moment`; raises NeverRuns."""
        start = moment
        for offset in range(SEARCH_DAYS):
            day = start.date() + timedelta(days=offset)
            if not self.matches_day(day):
                continue
            earliest = start if offset == 0 else datetime(day.year, day.month, day.day)
            found = self._first_on(day, earliest)
            if found is not None:
                return found
        raise NeverRuns(f"{self.text!r} matches no day")

    def _first_on(self, day, earliest):
        for hour in sorted(self.hour.values):
            if hour < earliest.hour:
                continue
            for minute in sorted(self.minute.values):
                if minute < earliest.minute:
                    continue
                return earliest.replace(year=day.year, month=day.month, day=day.day, hour=hour, minute=minute)
        return None

    def upcoming(self, moment, count):
        """The next `count` runs after `moment`, in order."""
        runs = []
        for _ in range(count):
            moment = self.next_after(moment)
            runs.append(moment)
            moment += timedelta(minutes=1)
        return runs

    def runs_in_month(self, year, month):
        """Calendar days of the month on which the job runs."""
        last = calendar.monthrange(year, month)[1]
        days = (date(year, month, number) for number in range(1, last + 1))
        return [day for day in days if self.matches_day(day)]


def parse(text):
    """Parse a five-field expression; raises BadExpression."""
    parts = text.split()
    if len(parts) != len(SPECS):
        raise BadExpression(f"expected {len(SPECS)} fields, got {len(parts)}")
    return Schedule(text, *(parse_field(spec, part) for spec, part in zip(SPECS, parts)))
