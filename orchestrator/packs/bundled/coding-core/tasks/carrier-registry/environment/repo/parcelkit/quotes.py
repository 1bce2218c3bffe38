"""What a parcel costs."""

from parcelkit.errors import NotAccepted, UnknownCarrier
from parcelkit.parcel import EU

CARRIERS = ["swift", "polar", "harbor", "mule"]


def check(code, parcel):
    """Raise NotAccepted if the carrier does not take the parcel."""
    if code not in CARRIERS:
        raise UnknownCarrier(f"unknown carrier {code!r}")
    if parcel.grams <= 0:
        raise NotAccepted("weight must be positive")
    if code == "swift":
        if parcel.grams > 31500:
            raise NotAccepted("swift: over 31500 g")
        if parcel.country not in EU:
            raise NotAccepted(f"swift: does not serve {parcel.country}")
        if parcel.girth_mm > 3000:
            raise NotAccepted("swift: girth over 3000 mm")
    elif code == "polar":
        if parcel.grams > 20000:
            raise NotAccepted("polar: over 20000 g")
        if parcel.country not in ("SE", "FI", "DK", "NO", "IS"):
            raise NotAccepted(f"polar: does not serve {parcel.country}")
    elif code == "harbor":
        if parcel.grams > 70000:
            raise NotAccepted("harbor: over 70000 g")
        if parcel.value_cents > 500000:
            raise NotAccepted("harbor: value over 5000.00")
        if parcel.girth_mm > 4200:
            raise NotAccepted("harbor: girth over 4200 mm")
    elif code == "mule":
        if parcel.grams > 2000:
            raise NotAccepted("mule: over 2000 g")
        if parcel.country != "DE":
            raise NotAccepted(f"mule: does not serve {parcel.country}")
        if parcel.height_mm > 50 and parcel.width_mm > 50 and parcel.length_mm > 50:
            raise NotAccepted("mule: no side under 50 mm")


def quote(code, parcel):
    """Price in cents; raises UnknownCarrier or NotAccepted."""
    check(code, parcel)
    if code == "swift":
        weight = max(parcel.grams, parcel.volume_grams)
        cents = 399 + 45 * (-(-weight // 1000))
        if parcel.country != "DE":
            cents += 500
        if parcel.value_cents > 50000:
            cents += parcel.value_cents // 200
        return cents
    elif code == "polar":
        cents = 690
        for limit, extra in ((1000, 0), (5000, 310), (10000, 720), (20000, 1450)):
            if parcel.grams <= limit:
                cents += extra
                break
        if parcel.country == "IS":
            cents = cents * 3 // 2
        if parcel.country == "NO":
            cents += 250
        return cents
    elif code == "harbor":
        weight = max(parcel.grams, parcel.volume_grams)
        if parcel.country in EU:
            cents = 1190 + weight * 9 // 100
        else:
            cents = 2490 + weight * 21 // 100
        if parcel.girth_mm > 3000:
            cents += 1900
        cents += max(0, parcel.value_cents - 10000) * 3 // 1000
        return cents
    else:
        return 179 if parcel.grams <= 500 else 279


def quotes(parcel):
    """Every carrier that takes the parcel, as (cents, code), cheapest first and then by code."""
    found = []
    for code in CARRIERS:
        try:
            found.append((quote(code, parcel), code))
        except NotAccepted:
            pass
    return sorted(found)


def cheapest(parcel):
    """Code of the cheapest carrier; raises NotAccepted if none takes the parcel."""
    found = quotes(parcel)
    if not found:
        raise NotAccepted("no carrier takes this parcel")
    return found[0][1]
