"""Who gets the next place: shares among screenings, pure."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Demand:
    """A screening that waits for one queue: its weight, its tries that are busy, and how many may start.

    `providers` are those of its models.
    """

    screening_id: str
    share: int
    busy: int
    ready: int
    providers: tuple[str, ...] = ()


def allot(
    room: int, demands: Sequence[Demand], provider_rooms: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Share `room` places among screenings: the next place is for whoever has least per share; pure.

    Busy tries count, so a screening that joins late catches up. Ties go by position. Nobody gets more than
    is ready; places that nobody wants stay free. All screenings of a provider together get no more than its
    room in `provider_rooms`; one that is not there has no limit.
    """
    left = dict(provider_rooms or {})
    given = dict.fromkeys((one.screening_id for one in demands), 0)
    heap = [(one.busy / one.share, place) for place, one in enumerate(demands) if one.ready > 0]
    heapq.heapify(heap)
    while room > 0 and heap:
        _, place = heapq.heappop(heap)
        one = demands[place]
        limited = [name for name in one.providers if name in left]
        if any(left[name] <= 0 for name in limited):
            continue
        room -= 1
        for name in limited:
            left[name] -= 1
        given[one.screening_id] += 1
        taken = given[one.screening_id]
        if taken < one.ready:
            heapq.heappush(heap, ((one.busy + taken) / one.share, place))
    return {screening_id: count for screening_id, count in given.items() if count}
