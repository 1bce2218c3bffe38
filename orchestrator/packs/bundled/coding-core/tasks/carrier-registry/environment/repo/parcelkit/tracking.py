"""What the carriers' event codes mean."""

from parcelkit.errors import UnknownCarrier


def status_of(code, event):
    """Our status of a carrier's event code."""
    if code == "swift":
        if event in ("10", "11"):
            return "announced"
        elif event.startswith("2") or event.startswith("3"):
            return "moving"
        elif event == "40":
            return "delivering"
        elif event == "50":
            return "delivered"
        elif event in ("60", "61"):
            return "returned"
        return "problem"
    elif code == "polar":
        return {"REG": "announced", "TRA": "moving", "CUS": "moving", "OUT": "delivering", "DEL": "delivered",
                "PUP": "delivered", "RET": "returned"}.get(event.upper(), "problem")
    elif code == "harbor":
        if not event.isdigit():
            return "problem"
        number = int(event)
        if number < 100:
            return "announced"
        if number < 700:
            return "moving"
        if number < 800:
            return "delivering"
        if number < 900:
            return "delivered"
        return "returned" if number < 950 else "problem"
    elif code == "mule":
        return "delivered" if event == "ok" else "moving"
    raise UnknownCarrier(f"unknown carrier {code!r}")


def tracking_url(code, number):
    """Where a customer can follow the parcel; None if the carrier has no such page."""
    if code == "swift":
        return f"https://track.swift.example/{number}"
    elif code == "polar":
        return f"https://polar.example/sok?id={number.replace('-', '')}"
    elif code == "harbor":
        return f"https://harbor.example/t/{number[:4]}/{number}"
    elif code == "mule":
        return None
    raise UnknownCarrier(f"unknown carrier {code!r}")
