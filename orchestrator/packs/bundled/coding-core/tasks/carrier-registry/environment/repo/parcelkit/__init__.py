"""Prices, labels and tracking of parcels."""

from parcelkit.errors import NotAccepted, ParcelError, UnknownCarrier
from parcelkit.labels import label, tracking_number
from parcelkit.parcel import Parcel
from parcelkit.quotes import cheapest, quote, quotes
from parcelkit.tracking import status_of, tracking_url

__all__ = ["NotAccepted", "Parcel", "ParcelError", "UnknownCarrier", "cheapest", "label", "quote", "quotes", "status_of",
           "tracking_number", "tracking_url"]
