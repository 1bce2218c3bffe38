"""The strict zip is a zip, and only what its writer writes."""

from __future__ import annotations

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.certificates import archive
from orchestrator.verification.errors import VerificationError

NAMES = st.text("abcdefghij/._-0123456789", min_size=1, max_size=20)
LIMIT = 1000


@given(st.lists(st.tuples(NAMES, st.binary(max_size=60)), max_size=5))
def test_round_trip_and_python_zipfile_agree(entries: list[tuple[str, bytes]]) -> None:
    """What we write, we read back, and an independent reader finds the same names and contents."""
    raw = archive.write(entries)
    assert archive.read(raw, entry_limit_bytes=LIMIT) == entries
    with zipfile.ZipFile(io.BytesIO(raw)) as other:
        assert other.testzip() is None
        assert [(info.filename, other.read(info)) for info in other.infolist()] == entries


def test_limits_are_checked_before_an_entry_is_taken() -> None:
    """Row 47: a large entry, and a name that is not plain ASCII, are refused."""
    for entries, code in (([("a", b"x" * 11)], "too-large"), ([("a\nb", b"")], "bundle-form")):
        with pytest.raises(VerificationError) as caught:
            archive.read(archive.write(entries), entry_limit_bytes=10)
        assert caught.value.reasons == (code,)
    with pytest.raises(ValueError, match="too many"):
        archive.write((str(number), b"") for number in range(archive.MAX_ENTRIES + 1))
