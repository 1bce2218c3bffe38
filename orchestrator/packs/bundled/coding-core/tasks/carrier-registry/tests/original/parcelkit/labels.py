"""Tracking numbers and label texts."""

from parcelkit.errors import UnknownCarrier
from parcelkit.quotes import check


def _mod11(digits):
    total = sum(int(digit) * weight for digit, weight in zip(digits, (8, 6, 4, 2, 3, 5, 9, 7)))
    rest = 11 - total % 11
    return {10: 0, 11: 5}.get(rest, rest)


def tracking_number(code, serial):
    """The carrier's tracking number for our serial number."""
    if serial < 0:
        raise ValueError("serial must not be negative")
    if code == "swift":
        digits = f"{serial % 10**8:08d}"
        return f"SW{digits}{_mod11(digits)}DE"
    elif code == "polar":
        text = f"{serial:010d}"
        return "PO-" + text[:5] + "-" + text[5:] + "-" + str(sum(int(c) for c in text) % 10)
    elif code == "harbor":
        number = f"{serial:012d}"
        odd = sum(int(c) for c in number[::2])
        even = sum(int(c) for c in number[1::2])
        return f"{number}{(10 - (odd * 3 + even) % 10) % 10}"
    elif code == "mule":
        return f"M{serial:X}"
    else:
        raise UnknownCarrier(f"unknown carrier {code!r}")


def label(code, parcel, serial):
    """Text for the label printer, one line an entry, ending in a newline."""
    check(code, parcel)
    number = tracking_number(code, serial)
    lines = []
    if code == "swift":
        lines.append("SWIFT PARCEL SERVICE")
        lines.append(f"{parcel.country} {parcel.grams / 1000:.3f} kg")
        if parcel.value_cents > 50000:
            lines.append("INSURED")
        lines.append(number)
    elif code == "polar":
        lines.append("Polar Post / Polarposten")
        lines.append(number)
        lines.append(f"{parcel.country}: {parcel.grams} g")
        if parcel.country in ("NO", "IS"):
            lines.append(f"CUSTOMS {parcel.value_cents / 100:.2f} EUR")
    elif code == "harbor":
        lines.append("HARBOR FREIGHT LINE")
        lines.append(f"girth {parcel.girth_mm} mm" + (" OVERSIZE" if parcel.girth_mm > 3000 else ""))
        lines.append(f"{parcel.grams} g to {parcel.country}")
        if parcel.country not in ("AT", "BE", "DE", "DK", "ES", "FI", "FR", "IE", "IT", "LU", "NL", "PL", "PT", "SE"):
            lines.append(f"CUSTOMS {parcel.value_cents / 100:.2f} EUR")
        lines.append(number)
    elif code == "mule":
        lines.append("mule")
        lines.append(number)
    return "\n".join(lines) + "\n"
