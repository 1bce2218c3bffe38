from datetime import datetime

import pytest

from tickwise import BadExpression, NeverRuns, parse


def test_later_the_same_day():
    assert parse("30 14 * * *").next_after(datetime(2024, 5, 6, 9, 0)) == datetime(2024, 5, 6, 14, 30)


def test_next_day():
    assert parse("30 2 * * *").next_after(datetime(2024, 5, 6, 9, 0)) == datetime(2024, 5, 7, 2, 30)


def test_weekday_only():
    assert parse("0 7 * * mon").next_after(datetime(2024, 5, 7, 8, 0)) == datetime(2024, 5, 13, 7, 0)


def test_month_end():
    assert parse("0 0 31 * *").next_after(datetime(2024, 4, 1, 0, 30)) == datetime(2024, 5, 31, 0, 0)


def test_impossible_day():
    with pytest.raises(NeverRuns):
        parse("0 0 30 2 *").next_after(datetime(2024, 1, 1))


def test_wrong_number_of_fields():
    with pytest.raises(BadExpression, match="5 fields"):
        parse("* * * *")


def test_runs_in_month():
    days = parse("0 0 1,15 * *").runs_in_month(2024, 2)
    assert [day.day for day in days] == [1, 15]
