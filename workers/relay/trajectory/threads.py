"""The conversations of a lane: which call continues which, and what each of them added.

A client sends its whole conversation with every call, and may have several at once (a title, a sub-agent).
A call belongs to the conversation whose last request has the longest beginning in common with its own,
after the system prompt. What tells conversations apart is how they open: the system prompt and all that is
said before the agent's first words have to be the same, or those first words themselves. A client that
drops the beginning is known by the agent's words that it still sends.

What lies behind the common beginning is new, except for messages that the last request had as well, only
elsewhere (a client that prunes or reorders), and for the last answer, which the client sends back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from workers.relay.routes import Purpose
from workers.relay.trajectory.answers import read_answer
from workers.relay.trajectory.calls import Call, Calls
from workers.relay.trajectory.neutral import (
    Answer,
    Message,
    Request,
    Speaker,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from workers.relay.trajectory.requests import read_request
from workers.relay.wire.family import Family


@dataclass(eq=False)
class Step:
    """One thing said. `answer` is there when `call` gave it; else it stood in the request of `call`.

    `results` maps the position of a tool call to what it gave. `stray` are results of calls that nobody made.
    """

    call: Call
    speaker: Speaker
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    answer: Answer | None = None
    results: dict[int, ToolResult] = field(default_factory=dict)
    stray: tuple[ToolResult, ...] = ()


@dataclass(eq=False)
class Thread:
    """One conversation. `unanswered` are calls that gave nothing: refused by the provider, cut at once."""

    family: Family | None
    steps: list[Step] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    unanswered: list[Call] = field(default_factory=list)
    tools: dict[str, ToolDefinition] = field(default_factory=dict)
    history: tuple[Message, ...] = ()
    echo_due: bool = False

    def ask(self, call: Call, request: Request) -> None:
        """Take in what a request says beyond the last one."""
        self.tools.update((tool.name, tool) for tool in request.tools)
        for message in _new(self.history, request.messages):
            if message.speaker is Speaker.AGENT:
                self._own(call, message)
            else:
                self._results(call, message)
                if message.text:
                    self.steps.append(Step(call, message.speaker, message.text))
        self.history = request.messages

    def said(self, messages: Iterable[Message]) -> bool:
        """Whether one of the messages is a turn that the agent had in this conversation."""
        own = [step for step in self.steps if step.speaker is Speaker.AGENT]
        texts = {step.text for step in own if step.text}
        idents = {made.id for step in own for made in step.tool_calls if made.id}
        return any(
            message.text in texts or any(made.id in idents for made in message.calls)
            for message in messages
            if message.speaker is Speaker.AGENT
        )

    def _own(self, call: Call, message: Message) -> None:
        """What the agent's side of a request says: mostly the last answer once more, or a part of it."""
        if self.echo_due:
            self.echo_due = False
        elif not self.said([message]):
            self.steps.append(Step(call, Speaker.AGENT, message.text, message.calls))

    def _results(self, call: Call, message: Message) -> None:
        stray = tuple(result for result in message.results if not self._place(result))
        if stray:
            self.steps.append(Step(call, Speaker.SYSTEM, "", stray=stray))

    def _place(self, result: ToolResult) -> bool:
        """Give a result to its call, of several the newest one; a second result for a call is passed over."""
        known = False
        for step in reversed(self.steps):
            for position, made in enumerate(step.tool_calls):
                if result.call_id != made.id if result.call_id else result.name != made.name:
                    continue
                known = True
                if position not in step.results:
                    step.results[position] = result
                    return True
        return known

    def take(self, call: Call) -> None:
        """Take in what came back."""
        self.calls.append(call)
        served = call.status is not None and 200 <= call.status < 300
        found = read_answer(call.family, bytes(call.answer)) if served else Answer()
        if not served or (found.empty and call.trouble and not call.answer_omitted):
            self.unanswered.append(call)
            return
        self.steps.append(Step(call, Speaker.AGENT, found.text, found.tool_calls, found))
        self.echo_due = True


def _new(old: Sequence[Message], now: Sequence[Message]) -> Iterator[Message]:
    same = _common(old, now)
    had = Counter(old[same:])
    for message in now[same:]:
        if had[message]:
            had[message] -= 1
        else:
            yield message


def _common(old: Sequence[Message], now: Sequence[Message]) -> int:
    """How many messages both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, now, strict=False)))


def _split(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """The system prompt, and the rest."""
    length = sum(1 for _ in takewhile(lambda message: message.speaker is Speaker.SYSTEM, messages))
    return messages[:length], messages[length:]


def _opening(messages: Sequence[Message]) -> int:
    """How many messages come before the agent's first words."""
    return sum(1 for _ in takewhile(lambda message: message.speaker is not Speaker.AGENT, messages))


def _shared(thread: Thread, call: Call, request: Request) -> int:
    """How many messages tie a request to a conversation; 0 when it is none of it."""
    if thread.family is not call.family:
        return 0
    system, rest = _split(thread.history)
    new_system, new_rest = _split(request.messages)
    length = _common(rest, new_rest)
    if any(message.speaker is Speaker.AGENT for message in rest[:length]):
        return length
    if system != new_system:
        return 0
    if length and length >= min(_opening(rest), _opening(new_rest)):
        return length
    return 1 if thread.said(new_rest) else 0


def threads_of(calls: Calls) -> list[Thread]:
    """All conversations, by their first call.

    Calls whose request cannot be read, or was not kept, are together in one without a family: which
    conversation they continue is not guessed. Embeddings are left out, token counts say nothing.
    """
    found: list[Thread] = []
    unread = Thread(None)
    for call in calls.made:
        if call.family is Family.OPENAI_EMBEDDINGS or call.purpose is Purpose.COUNT:
            continue
        request = None if call.request is None else read_request(call.family, call.request)
        thread = unread if request is None else _thread(found, call, request)
        if thread not in found:
            found.append(thread)
        if request is not None:
            thread.ask(call, request)
        thread.take(call)
    return found


def _thread(threads: Iterable[Thread], call: Call, request: Request) -> Thread:
    """The conversation that a request continues, of several equals the newest; a new one if there is none."""
    best, most = Thread(call.family), 0
    for thread in threads:
        shared = _shared(thread, call, request)
        if shared and shared >= most:
            best, most = thread, shared
    return best
