"""The talk itself, without I/O: bytes of the agent in, bytes for it out, until there is nothing to say.

initialize, session/new, then one session/prompt per prompt. The agent may write anything; nothing that it
writes raises, and everything that is kept of it has a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.agents.launching import Permission
from workers.adapters.acp import messages
from workers.adapters.acp.ending import AcpEnd, Why
from workers.adapters.acp.journal import Journal
from workers.adapters.acp.lines import LineBuffer, LineTooLongError
from workers.adapters.acp.messages import Notification, Request, Response
from workers.adapters.acp.permission import choose
from workers.adapters.shell.conversation import mapped, word
from workers.adapters.shell.texts import shortened
from workers.adapters.shell.transport import parsed

MOST_STRANGE: Final = 1_000
"""Lines that are no message: some agents print warnings among them."""
MOST_REQUESTS: Final = 10_000
MOST_UNREAD_BYTES: Final = 1 << 20
"""Answers that the agent does not read, beside our own requests."""

_PIECE_BYTES: Final = 1 << 16
_DETAIL_BYTES: Final = 1 << 10
_MAX_SESSION_CHARS: Final = 1_000
_PERMISSION: Final = "session/request_permission"


@dataclass(frozen=True)
class Talk:
    """What is to be said: `prompts` one after the other in one session whose folder is `workdir`.

    `mcp_servers` as of `AttemptOrder`; `permission` is the answer to every request for one.
    """

    prompts: tuple[str, ...]
    workdir: str
    permission: Permission = "allow"
    mcp_servers: tuple[Mapping[str, Any], ...] = ()


class Session:
    """One talk; a `Dialogue` of `workers.sandbox.dialogue`."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._lines = LineBuffer()
        self._journal = Journal()
        self._out = bytearray()
        self._number = 0
        self._asked = ""
        self._own_bytes = 0
        self._session = ""
        self._turns = 0
        self._strange = 0
        self._requests = 0
        self._end: tuple[Why, str] | None = None
        self._ask("initialize", messages.initialize())

    def waiting(self) -> bytes:
        """The next bytes for the agent; empty when there is nothing to send."""
        return bytes(self._out[:_PIECE_BYTES])

    def sent(self, count: int) -> None:
        """So many of the waiting bytes are on their way."""
        del self._out[:count]

    def over(self) -> bool:
        """Whether nothing is left to say or to wait for."""
        return self._end is not None

    def heard(self, data: bytes) -> None:
        """Take what the agent wrote; nothing counts any more once the talk is over."""
        if self._end is not None:
            return
        try:
            lines = self._lines.feed(data)
        except LineTooLongError as error:
            self._stop(Why.BROKEN, str(error))
            return
        for line in lines:
            self._take(line)
            if self._end is not None:
                return

    def end(self) -> AcpEnd:
        """What came of it so far."""
        why, detail = self._end or (Why.UNFINISHED, f"no answer to {self._asked} yet")
        return AcpEnd(why, self._turns, detail, self._journal.claims(), self._journal.log(self._strange))

    def _take(self, line: bytes) -> None:
        message = messages.read(parsed(line))
        if isinstance(message, Request):
            self._asked_of_us(message)
        elif isinstance(message, Notification):
            if message.method == "session/update" and self._is_ours(message.params):
                self._journal.update(message.params)
        elif isinstance(message, Response) and message.id == self._number:
            self._answered(message)
        else:
            self._strange += 1
            if self._strange > MOST_STRANGE:
                self._stop(Why.BROKEN, f"more than {MOST_STRANGE} lines that are no message")

    def _asked_of_us(self, asked: Request) -> None:
        self._requests += 1
        if self._requests > MOST_REQUESTS:
            self._stop(Why.BROKEN, f"more than {MOST_REQUESTS} requests")
            return
        self._out += self._reply(asked)
        if len(self._out) > MOST_UNREAD_BYTES + self._own_bytes:
            self._stop(Why.BROKEN, "the agent asks without reading the answers")

    def _reply(self, asked: Request) -> bytes:
        if asked.method != _PERMISSION:
            self._journal.refused(asked)
            return messages.refusal(asked, messages.METHOD_NOT_FOUND, "this client does not offer that")
        if not self._is_ours(asked.params):
            self._journal.refused(asked)
            return messages.refusal(asked, messages.INVALID_PARAMS, "there is no such session")
        choice = choose(self._talk.permission, asked.params)
        self._journal.permission(asked, choice)
        return messages.answer(asked, choice.result())

    def _is_ours(self, params: Mapping[str, Any]) -> bool:
        return bool(self._session) and params.get("sessionId") == self._session

    def _answered(self, answer: Response) -> None:
        if answer.error is not None:
            said = word(answer.error.get("message")) or "an error without a message"
            self._stop(Why.REFUSED, shortened(f"{self._asked}: {said}", _DETAIL_BYTES))
        elif self._asked == "initialize":
            self._begin(answer.result)
        elif self._asked == "session/new":
            self._opened(answer.result)
        else:
            self._turn(answer.result)

    def _begin(self, result: Mapping[str, Any]) -> None:
        self._journal.about(result)
        version = result.get("protocolVersion")
        if type(version) is not int or version != messages.PROTOCOL_VERSION:
            self._stop(Why.VERSION, f"the agent does not speak version {messages.PROTOCOL_VERSION}")
            return
        servers = self._talk.mcp_servers
        missing = messages.lacking(servers, mapped(result.get("agentCapabilities")))
        if missing is not None:
            self._stop(Why.LACKING, f"the task has {missing} MCP servers, which the agent cannot use")
            return
        self._ask("session/new", {"cwd": self._talk.workdir, "mcpServers": messages.servers(servers)})

    def _opened(self, result: Mapping[str, Any]) -> None:
        session = result.get("sessionId")
        if not isinstance(session, str) or not 0 < len(session) <= _MAX_SESSION_CHARS:
            self._stop(Why.BROKEN, "the agent gave the session no usable id")
            return
        self._session = session
        self._prompt()

    def _turn(self, result: Mapping[str, Any]) -> None:
        self._turns += 1
        self._journal.turn(result)
        if result.get("stopReason") == "end_turn" and self._turns < len(self._talk.prompts):
            self._prompt()
            return
        left = len(self._talk.prompts) - self._turns
        said = "every prompt was answered" if not left else f"{left} prompts were left when the agent stopped"
        self._stop(Why.FINISHED, said)

    def _prompt(self) -> None:
        content = [{"type": "text", "text": self._talk.prompts[self._turns]}]
        self._ask("session/prompt", {"sessionId": self._session, "prompt": content})

    def _ask(self, method: str, params: Mapping[str, Any]) -> None:
        self._number += 1
        self._asked = method
        line = messages.request(self._number, method, params)
        self._own_bytes = len(line)
        self._out += line

    def _stop(self, why: Why, detail: str) -> None:
        self._end = why, detail
        self._out.clear()
