import pytest

from tickwise.errors import BadExpression
from tickwise.fields import SPECS, parse_field

MINUTE, HOUR, DAY, MONTH, WEEKDAY = SPECS


def test_star_is_everything():
    field = parse_field(HOUR, "*")
    assert field.values == frozenset(range(24))
    assert field.star


def test_list_and_range():
    assert parse_field(MINUTE, "5,10-12").values == {5, 10, 11, 12}


def test_names():
    assert parse_field(WEEKDAY, "mon").values == {1}
    assert parse_field(MONTH, "dec").values == {12}


@pytest.mark.parametrize("text", ["60", "-1", "a", "", "1,,2", "*/0", "5/2", "mon"])
def test_bad_minutes(text):
    with pytest.raises(BadExpression, match="minute"):
        parse_field(MINUTE, text)
