"""Which turn a request has come to, what becomes of it, and when a fault is served: no server state."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.rehearsal.asked import Asked, Speaker, Tool, read_history
from workers.rehearsal.errors import CallError
from workers.rehearsal.play import FaultCounter, choose, reply_to
from workers.rehearsal.reply import Finish, Reply, ToolCall, tokens
from workers.rehearsal.script import Script, Usage, parse_script

USER, ASSISTANT, OTHER, SYSTEM = Speaker.USER, Speaker.ASSISTANT, Speaker.OTHER, Speaker.SYSTEM
TWO_TURNS = '[[turn]]\nsay = "First."\nrun = "ls"\n[[turn]]\nsay = "Last."\n'
MINI = (SYSTEM, "end with echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")

MakeAsked = Callable[..., Asked]


def _script(turns: str) -> Script:
    return parse_script(f'format = "assize.rehearsal/1"\n{turns}', "s")


def _play(turns: str, request: Asked) -> Reply:
    return reply_to(choose(_script(turns), request), request, 1_800_000_000)


def _after(turns: int) -> list[tuple[Speaker, str]]:
    return [(USER, "do it"), *((ASSISTANT, ""), (OTHER, "")) * turns]


@pytest.mark.parametrize(
    ("speakers", "turns"),
    [
        ([], 0),
        ([USER], 0),
        ([SYSTEM, USER, ASSISTANT, OTHER], 1),
        ([USER, ASSISTANT, ASSISTANT, ASSISTANT, OTHER, OTHER, ASSISTANT, USER], 2),
    ],
)
def test_turns_are_runs_of_assistant_items(speakers: list[Speaker], turns: int) -> None:
    """Reasoning, text and calls of one reply are neighbours and count once."""
    assert read_history((speaker, "") for speaker in speakers).turns == turns


def test_the_task_is_what_users_say_before_the_first_reply() -> None:
    """Some agents open with a message about the machine; later user messages do not matter."""
    found = read_history(
        [
            (SYSTEM, "rules"),
            (USER, "machine"),
            (USER, "task"),
            (ASSISTANT, "x"),
            (USER, "later"),
            (SYSTEM, "y"),
        ]
    )
    assert found.task == "machine\ntask" and found.opening == "rules\nmachine\ntask"


def test_turns_are_played_by_the_length_of_the_conversation(make_asked: MakeAsked) -> None:
    """The same request gets the same reply, in any order; beyond the end the last, without its command."""
    replies = [_play(TWO_TURNS, make_asked(*_after(turns))) for turns in (0, 1, 2, 0)]
    assert [reply.text for reply in replies] == ["First.", "Last.", "Last.", "First."]
    assert [reply.finish for reply in replies] == [Finish.TOOL, Finish.STOP, Finish.STOP, Finish.TOOL]
    assert replies[0] == replies[3] and replies[1].seed != replies[2].seed
    last = _play('[[turn]]\nrun = "ls"\n', make_asked(*_after(1)))
    assert (last.text, last.call, last.finish) == ("Done.", None, Finish.STOP)


def test_a_task_that_nothing_matches_is_refused(make_asked: MakeAsked) -> None:
    """A script without a default conversation says so instead of playing another task's turns."""
    script = _script('[[conversation]]\nwhen = "other"\n[[conversation.turn]]\nsay = "x"\n')
    with pytest.raises(CallError, match="no conversation of the script matches"):
        choose(script, make_asked())


def test_a_command_becomes_a_call_or_a_text(make_asked: MakeAsked) -> None:
    """With a shell on offer it is called; without one the command stands in the text, and the turn stops."""
    called = _play(TWO_TURNS, make_asked())
    assert called.call == ToolCall("bash", {"command": "ls"}) and called.text == "First."
    told = _play(TWO_TURNS, make_asked(tools=(Tool("finish"),)))
    assert (told.call, told.text) == (None, "First.\n\n```bash\nls\n```")
    assert told.finish is Finish.STOP


def test_the_last_word_to_mini_swe_agent_is_its_closing_command(make_asked: MakeAsked) -> None:
    """Only after the script's last command, and not when the script wants a reply cut by length."""
    commands = []
    for turns in (0, 1, 2):
        call = _play(TWO_TURNS, make_asked(MINI, *_after(turns))).call
        commands.append(call and call.arguments["command"])
    closing = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    assert commands == ["ls", closing, closing]
    cut = _play('[[turn]]\nsay = "x"\nfinish = "length"\n', make_asked(MINI, (USER, "do it")))
    assert cut.call is None and cut.finish is Finish.LENGTH


def test_usage_is_counted_from_bytes_or_taken_from_the_script(make_asked: MakeAsked) -> None:
    """Four bytes are one token, rounded up; a scripted usage is played as it stands."""
    request = make_asked()
    counted = _play('[[turn]]\nsay = "größer"\n', request).usage
    assert counted == Usage(input=tokens(request.prompt_bytes), output=2)
    line = "usage = { input = 9, cached = 3, output = 7, reasoning = 7 }"
    assert _play(f'[[turn]]\nsay = "x"\n{line}\n', request).usage == Usage(
        input=9, cached=3, output=7, reasoning=7
    )
    assert [tokens(size) for size in (0, 1, 4, 5)] == [0, 1, 1, 2]


@given(limit=st.integers(1, 40), said=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_an_output_limit_is_never_exceeded(make_asked: MakeAsked, limit: int, said: str) -> None:
    """A reply that is too long is cut between characters, loses its call, and says that it was cut."""
    script = Script.model_validate({"format": "assize.rehearsal/1", "turn": ({"say": said, "run": "ls"},)})
    request = make_asked(output_limit=limit)
    reply = reply_to(choose(script, request), request, 0)
    assert reply.usage.output <= limit
    assert said.startswith(reply.text)
    assert (reply.finish is Finish.LENGTH) == (reply.call is None)


FAULTY = '[[turn]]\nsay = "x"\nfault = { status = 500 }\ntimes = 2\n'


def test_a_fault_is_served_so_many_times_per_conversation(make_asked: MakeAsked) -> None:
    """Twice for each of two conversations, whatever the order of the calls; then the turn is played."""
    counter, script = FaultCounter(), _script(FAULTY)
    one, two = make_asked((USER, "one")), make_asked((USER, "two"))
    served = [
        counter.due(choose(script, request), request) is not None
        for request in (one, two, one, one, two, two)
    ]
    assert served == [True, True, True, False, True, False]


def test_a_fault_is_served_once_unless_the_script_says_more(make_asked: MakeAsked) -> None:
    """`times` defaults to 1, and an encore of the last turn has no fault."""
    counter, script = FaultCounter(), _script(FAULTY.replace("times = 2\n", ""))
    request, later = make_asked(), make_asked(*_after(1))
    assert [counter.due(choose(script, item), item) is not None for item in (request, request)] == [
        True,
        False,
    ]
    assert counter.due(choose(script, later), later) is None


def test_the_counter_does_not_grow_for_ever(make_asked: MakeAsked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its size the conversation not met for longest is forgotten."""
    monkeypatch.setattr("workers.rehearsal.play.MAX_COUNTED", 2)
    counter, script = FaultCounter(), _script(FAULTY.replace("times = 2\n", ""))
    requests = [make_asked((USER, name)) for name in "abca"]
    assert all(counter.due(choose(script, item), item) is not None for item in requests)
