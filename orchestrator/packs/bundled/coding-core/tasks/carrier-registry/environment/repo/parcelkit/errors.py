"""Errors under one root."""


class ParcelError(Exception):
    """Any error of this library."""


class UnknownCarrier(ParcelError):
    """There is no carrier of that code."""


class NotAccepted(ParcelError):
    """The carrier does not take the parcel; the text says why."""
