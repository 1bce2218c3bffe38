import io
from datetime import datetime

import pytest

from tickwise.cli import run
from tickwise.errors import BadExpression
from tickwise.jobs import agenda, load_jobs


def test_agenda_is_sorted_by_time_then_name():
    jobs = load_jobs("b: 0 6 * * *\na: 0 6 * * *\nc: 0 5 * * *\n")
    found = agenda(jobs, datetime(2024, 1, 1), 3)
    assert [name for _, name in found] == ["c", "a", "b"]


def test_line_number_in_error():
    with pytest.raises(BadExpression, match="line 2"):
        load_jobs("# first\nbad: 99 * * * *\n")


def test_duplicate_job():
    with pytest.raises(BadExpression, match="twice"):
        load_jobs("a: * * * * *\na: * * * * *\n")


def test_cli_next():
    out = io.StringIO()
    assert run(["next", "0 12 * * *", "--after", "2024-01-01T13:00"], out) == 0
    assert out.getvalue() == "2024-01-02T12:00\n"


def test_cli_reports_bad_expressions(capsys):
    assert run(["next", "x", "--after", "2024-01-01T13:00"]) == 2
    assert "5 fields" in capsys.readouterr().err
