"""The state that a meter keeps for one answer, and the verdict at its end; families fill it in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from workers.relay.wire.reading import Completeness, Counted, NotBelievedError, Reading
from workers.relay.wire.sse import Event


class Tally(ABC):
    """What was seen of one answer.

    `usage` merges every report: per field the last one that is not null, since all families report running
    totals. `final` means that a report covers the whole answer; `broken` that an error came before that.
    """

    total_name: ClassVar[str | None] = None
    """The field that sums the others up and so belongs to its own report only."""

    def __init__(self) -> None:
        self.usage: dict[str, Any] | None = None
        self.content = False
        self.ended = False
        self.final = False
        self.error = False
        self.broken = False
        self.saw_done = False
        self.finish: str | None = None
        self.model: str | None = None
        self.flags: dict[str, None] = {}

    @abstractmethod
    def skim(self, event: Event) -> bool:
        """True when the event's data need not be parsed, because it cannot change the reading."""

    @abstractmethod
    def take(self, item: dict[str, Any], name: str | None) -> None:
        """One JSON object: the data of the event `name`, or an element of a streamed array."""

    @abstractmethod
    def counted(self) -> Counted:
        """The merged usage in buckets; raises `NotBelievedError`."""

    def take_whole(self, item: dict[str, Any]) -> None:
        """The one JSON object of an answer that is not a stream."""
        self.take(item, None)
        self.ended = True
        self.final = self.usage is not None

    def done(self) -> None:
        """The stream's `[DONE]` line. Only chat completions end by it; elsewhere it is no harm."""
        self.saw_done = True

    def settled(self, *, clean: bool) -> bool:
        """Whether the usage covers the whole answer, `clean` telling that nothing was cut off."""
        return self.final

    def note_error(self) -> None:
        """The provider reported an error inside the answer."""
        self.error = True
        self.broken = self.broken or not self.final

    def note_garbage(self, flag: str) -> None:
        """The provider sent something that its own format does not allow."""
        self.error = True
        self.flags[flag] = None

    def add_usage(self, report: dict[str, Any]) -> None:
        """Merges one report of usage."""
        told = {name: value for name, value in report.items() if value is not None}
        known = self.usage or {}
        if told and self.total_name is not None and self.total_name not in told:
            known = {name: value for name, value in known.items() if name != self.total_name}
        merged = known | told
        for name, value in told.items():
            before = known.get(name)
            if isinstance(value, dict) and isinstance(before, dict):
                newer = {inner: count for inner, count in value.items() if count is not None}
                merged[name] = before | newer
        self.usage = merged

    def reading(self, *, clean: bool) -> Reading:
        """The verdict; `clean` is False when the body was cut before its end."""
        flags, fault, counted = dict(self.flags), self.error or not self.ended, None
        if self.usage is not None:
            try:
                counted = self._believed()
                flags |= dict.fromkeys(counted.doubts)
            except NotBelievedError as lie:
                flags[lie.flag] = None
                fault = True
        if counted is None:
            completeness = Completeness.UNKNOWN
        elif self.settled(clean=clean) and not self.broken and not counted.doubts:
            completeness = Completeness.EXACT
        else:
            completeness = Completeness.BOUNDED
        return Reading(
            completeness=completeness,
            buckets=None if counted is None else counted.buckets,
            flags=tuple(flags),
            finish=self.finish,
            served_model=self.model,
            provider_fault=fault,
            ended=self.ended,
        )

    def _believed(self) -> Counted:
        counted = self.counted()
        if self.content and not any(counted.buckets.tokens().values()):
            raise NotBelievedError("zero_usage")
        return counted
