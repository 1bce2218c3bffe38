import pytest

from parcelkit import NotAccepted, Parcel, UnknownCarrier, cheapest, label, quote, quotes, status_of, tracking_number

SMALL = Parcel(grams=400, country="DE", length_mm=200, width_mm=150, height_mm=20)
LARGE = Parcel(grams=12000, country="SE", length_mm=500, width_mm=400, height_mm=400, value_cents=60000)


def test_quotes():
    assert quotes(SMALL) == [(179, "mule"), (444, "swift"), (1226, "harbor")]
    assert quotes(LARGE) == [(1919, "swift"), (2140, "polar"), (2780, "harbor")]


def test_cheapest():
    assert cheapest(SMALL) == "mule"
    with pytest.raises(NotAccepted):
        cheapest(Parcel(90000, "DE", 100, 100, 100))


def test_limits():
    with pytest.raises(NotAccepted, match="over 2000 g"):
        quote("mule", Parcel(2001, "DE", 10, 10, 10))


def test_unknown():
    with pytest.raises(UnknownCarrier):
        quote("owl", SMALL)
    with pytest.raises(UnknownCarrier):
        status_of("owl", "1")


def test_label():
    assert label("swift", LARGE, 4711).splitlines() == ["SWIFT PARCEL SERVICE", "SE 12.000 kg", "INSURED", "SW000047113DE"]


def test_numbers():
    assert tracking_number("polar", 1234567890) == "PO-12345-67890-5"
    assert tracking_number("mule", 255) == "MFF"


def test_status():
    assert status_of("harbor", "850") == "delivered"
    assert status_of("polar", "out") == "delivering"
