"""The ATIF document: threads, retries, denials, cuts, money, limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.relay.trajectory.atif import LISTED
from workers.relay.trajectory.metrics import usd
from workers.relay.trajectory.texts import TEXT_LIMIT_BYTES
from workers.relay.trajectory.tool_calls import tool_calls
from workers.relay.wire.family import Family

if TYPE_CHECKING:
    from tests.unit.relay.trajectory.conftest import Lane

SYSTEM = {"role": "system", "content": "You are an agent."}
TASK = {"role": "user", "content": "Do it."}


@pytest.fixture
def lane(make_lane: Callable[[Family], Lane]) -> Lane:
    return make_lane(Family.OPENAI_CHAT)


def body(*messages: Mapping[str, Any], system: Mapping[str, Any] = SYSTEM) -> dict[str, Any]:
    return {"messages": [system, *messages]}


def own(text: str | None = None, *calls: tuple[str, str]) -> dict[str, Any]:
    """The agent's message with calls of `bash`, each an id and its arguments."""
    made = [{"id": ident, "function": {"name": "bash", "arguments": given}} for ident, given in calls]
    return {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}


def result(ident: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": ident, "content": text}


def says(message: Mapping[str, Any]) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()


def told(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(step["source"], step["message"]) for step in document["steps"]]


OPENED = [("system", "You are an agent."), ("user", "Do it.")]


def test_a_title_call_in_parallel_is_a_conversation_of_its_own(lane: Lane) -> None:
    """It has another system prompt, and ends in the middle of the main one, which stays whole."""
    title = lane.ask(body(TASK, system={"role": "system", "content": "Write a title."}))
    main = lane.ask(body(TASK))
    for call, text in ((main, "Reading."), (title, "A title")):
        lane.head(call)
        lane.body(call, says(own(text)))
        lane.settle(call)
    lane.turn(body(TASK, own("Reading."), {"role": "user", "content": "Go on."}), says(own("Done.")))
    found = lane.trajectory()
    assert told(found) == [*OPENED, ("agent", "Reading."), ("user", "Go on."), ("agent", "Done.")]
    (other,) = found["subagent_trajectories"]
    assert told(other) == [("system", "Write a title."), ("user", "Do it."), ("agent", "A title")]
    assert found["trajectory_id"] == "try-1:1" and other["trajectory_id"] == "try-1:2"


def test_a_sub_agent_with_the_same_prompt_and_environment_is_told_apart_by_its_task(lane: Lane) -> None:
    """All that is said before the agent's first words counts, not only the first message."""
    where = {"role": "user", "content": "<environment/>"}
    lane.turn(body(where, TASK), says(own("One.")))
    lane.turn(body(where, {"role": "user", "content": "Only look."}), says(own("Two.")))
    lane.turn(body(where, TASK, own("One."), TASK), says(own("Three.")))
    found = lane.trajectory()
    assert [text for source, text in told(found) if source == "agent"] == ["One.", "Three."]
    assert len(found["subagent_trajectories"]) == 1


def test_a_system_prompt_that_changes_does_not_end_the_conversation(lane: Lane) -> None:
    """Some agents write the time into it; the new prompt is shown, and nothing else again."""
    lane.turn(body(TASK), says(own("One.")))
    later = {"role": "system", "content": "You are an agent. It is noon."}
    more = {"role": "user", "content": "More."}
    lane.turn(body(TASK, own("One."), system=SYSTEM), says(own("Two.")))
    lane.turn(body(TASK, own("One."), own("Two."), more, system=later), says(own("Three.")))
    found = lane.trajectory()
    assert told(found) == [
        *OPENED,
        ("agent", "One."),
        ("agent", "Two."),
        ("system", later["content"]),
        ("user", "More."),
        ("agent", "Three."),
    ]


def test_a_client_that_drops_the_beginning_stays_in_its_conversation(lane: Lane) -> None:
    """A sliding window is known by the agent's words that it still sends; nothing is shown twice."""
    lane.turn(body(TASK), says(own(None, ("c1", "{}"))))
    lane.turn(body(TASK, own(None, ("c1", "{}")), result("c1", "x")), says(own(None, ("c2", "{}"))))
    window = body(own(None, ("c1", "{}")), result("c1", "x"), own(None, ("c2", "{}")), result("c2", "y"))
    lane.turn(window, says(own("Done.")))
    found = lane.trajectory()
    assert told(found) == [*OPENED, ("agent", ""), ("agent", ""), ("agent", "Done.")]
    contents = [step["observation"]["results"][0]["content"] for step in found["steps"][2:4]]
    assert contents == ["x", "y"]


def test_a_pruned_result_does_not_replace_the_first_one(lane: Lane) -> None:
    """Clients shorten old results; what the tool gave is what was sent first."""
    lane.turn(body(TASK), says(own(None, ("c1", "{}"))))
    lane.turn(body(TASK, own(None, ("c1", "{}")), result("c1", "long")), says(own(None, ("c2", "{}"))))
    one, two = own(None, ("c1", "{}")), own(None, ("c2", "{}"))
    pruned = body(TASK, one, result("c1", "[cut]"), two, result("c2", "y"))
    lane.turn(pruned, says(own("Done.")))
    found = lane.trajectory()
    assert told(found) == [*OPENED, ("agent", ""), ("agent", ""), ("agent", "Done.")]
    assert found["steps"][2]["observation"]["results"] == [{"content": "long", "source_call_id": "c1"}]


def test_results_of_parallel_calls_go_to_their_calls_in_any_order(lane: Lane) -> None:
    """An id that a provider uses again belongs to the newest call that has no result."""
    calls = (("a", "{}"), ("b", "{}"))
    lane.turn(body(TASK), says(own(None, *calls)))
    second = body(TASK, own(None, *calls), result("b", "B"), result("a", "A"))
    lane.turn(second, says(own(None, ("a", "{}"))))
    third = {"messages": [*second["messages"], own(None, ("a", "{}")), result("a", "again")]}
    lane.turn(third, says(own("Done.")))
    steps = lane.trajectory()["steps"]
    assert [one["content"] for one in steps[2]["observation"]["results"]] == ["A", "B"]
    assert [one["content"] for one in steps[3]["observation"]["results"]] == ["again"]


def test_two_calls_with_one_id_get_ids_of_their_own(lane: Lane) -> None:
    """An id names one call of a step; results are given in the order of the calls."""
    calls = (("a", "{}"), ("a", "{}"))
    lane.turn(body(TASK), says(own(None, *calls)))
    lane.turn(body(TASK, own(None, *calls), result("a", "1"), result("a", "2")), says(own("Done.")))
    step = lane.trajectory()["steps"][2]
    assert [call["tool_call_id"] for call in step["tool_calls"]] == ["a", "call-1-1"]
    assert [one["content"] for one in step["observation"]["results"]] == ["1", "2"]


def test_a_result_of_no_known_call_is_shown_as_such(lane: Lane) -> None:
    """It names no call, for the format forbids a name that is not in the step."""
    lane.turn(body(TASK, result("zz", "x")), says(own("Done.")))
    step = lane.trajectory()["steps"][2]
    assert step["source"] == "system"
    assert step["observation"] == {"results": [{"content": "x", "extra": {"unmatched": "zz"}}]}


def test_a_history_that_the_agent_brought_is_not_an_answer(lane: Lane) -> None:
    """Examples in the first request: agent steps without a model call, and no tool calls of the run."""
    lane.turn(body(TASK, own("Example.", ("c0", "{}")), result("c0", "x"), TASK), says(own("Done.")))
    found = lane.trajectory()
    assert told(found) == [*OPENED, ("agent", "Example."), ("user", "Do it."), ("agent", "Done.")]
    assert [step.get("llm_call_count") for step in found["steps"]] == [None, None, 0, None, 1]
    assert tool_calls(lane.records) == []


def test_an_answer_that_comes_back_in_two_messages_is_still_one(lane: Lane) -> None:
    """Some clients send text and call apart; an agent message that was never an answer is shown."""
    lane.turn(body(TASK), says(own("Reading.", ("c1", "{}"))))
    apart = (own("Reading."), own(None, ("c1", "{}")), result("c1", "x"), own("Made up."))
    lane.turn(body(TASK, *apart), says(own("Done.")))
    found = lane.trajectory()
    assert told(found) == [*OPENED, ("agent", "Reading."), ("agent", "Made up."), ("agent", "Done.")]
    assert [step.get("llm_call_count") for step in found["steps"][2:]] == [1, 0, 1]


def test_a_call_that_the_provider_refused_and_its_retry_are_one_step(lane: Lane) -> None:
    """429, the same request again, an answer: the user said it once, the model answered once."""
    refused = lane.fail(body(TASK), 429)
    lane.turn(body(TASK), says(own("Done.")))
    found = lane.trajectory()
    assert told(found) == [*OPENED, ("agent", "Done.")]
    assert found["steps"][-1]["extra"]["call"] == 2
    (failure,) = found["extra"]["unanswered"]
    assert (failure["call"], failure["status"], failure["fault"]) == (refused, 429, "provider")
    assert found["final_metrics"]["total_cost_usd"] == 0.001234567


def test_a_denied_call_is_counted_beside_the_steps(lane: Lane) -> None:
    """Its body is not kept, so it says nothing; the list is short, the count is whole."""
    lane.turn(body(TASK), says(own("Done.")))
    for _ in range(LISTED + 1):
        lane.deny(b"{}", "cap_reached")
    found = lane.trajectory()
    assert told(found) == [*OPENED, ("agent", "Done.")]
    assert found["extra"]["denied_calls"] == LISTED + 1
    assert len(found["extra"]["denied"]) == LISTED
    assert found["extra"]["denied"][0]["code"] == "cap_reached"


def test_a_cut_stream_is_a_step_with_its_fault_and_no_exact_cost(lane: Lane) -> None:
    """What was there is shown; then no sum pretends to know."""
    piece = b'data: {"choices":[{"delta":{"content":"Rea"}}]}\n\ndata: {"choi'
    unknown = {"completeness": "unknown", "usage": None, "listNusd": None, "standardNusd": None}
    lane.turn(body(TASK), piece, **unknown, fault="provider")
    lane.turn(body(TASK), says(own("Done.")))
    found = lane.trajectory()
    assert told(found) == [*OPENED, ("agent", "Rea"), ("agent", "Done.")]
    cut = found["steps"][2]
    assert cut["extra"]["fault"] == "provider"
    assert cut["metrics"] == {"extra": {"completeness": "unknown"}}
    final = found["final_metrics"]
    assert final == {"total_steps": 4, "extra": {"calls": 2, "inexact_calls": 1}}


def test_a_stream_cut_before_its_first_word_is_no_step(lane: Lane) -> None:
    """There is nothing to show; the call is listed, and its cost still unknown."""
    lane.turn(body(TASK), b": hello\n\n", completeness="unknown", usage=None, listNusd=None, fault="provider")
    found = lane.trajectory()
    assert told(found) == OPENED
    assert found["extra"]["unanswered_calls"] == 1
    assert found["final_metrics"]["extra"]["inexact_calls"] == 1


def test_an_empty_answer_that_ended_well_is_a_step(lane: Lane) -> None:
    """A model may choose to say nothing."""
    lane.turn(body(TASK), says(own("")))
    assert told(lane.trajectory()) == [*OPENED, ("agent", "")]


def test_after_a_crash_an_open_call_is_unfinished(lane: Lane) -> None:
    """Neither settled nor released: shown as far as it came, at no known cost."""
    call = lane.ask(body(TASK))
    lane.head(call)
    lane.body(call, b'data: {"choices":[{"delta":{"content":"Rea"}}]}\n\n')
    lane.ask(body(TASK))
    found = lane.trajectory()
    assert told(found) == [*OPENED, ("agent", "Rea")]
    assert found["steps"][-1]["extra"]["unfinished"] is True
    assert found["extra"]["unanswered"][0]["unfinished"] is True
    assert "total_cost_usd" not in found["final_metrics"]


def test_a_request_that_was_not_kept_is_noted_and_not_guessed(lane: Lane) -> None:
    """Which conversation it continues is not known: it stands in one of its own."""
    lane.turn(body(TASK), says(own("One.")))
    call = lane.ask(body(TASK, own("One."), TASK), keep=False)
    lane.head(call)
    lane.body(call, says(own("Two.")))
    lane.settle(call)
    found = lane.trajectory()
    assert told(found) == [*OPENED, ("agent", "One.")]
    (other,) = found["subagent_trajectories"]
    assert told(other) == [("agent", "Two.")]
    assert other["steps"][0]["extra"]["omitted"] == ["request"]


def test_an_answer_that_was_not_kept_is_noted_and_not_guessed(lane: Lane) -> None:
    """The next request tells it in the client's words: they are not put into the model's mouth."""
    call = lane.ask(body(TASK))
    lane.head(call)
    lane.body(call, says(own("One.")), keep=False)
    lane.settle(call)
    lane.turn(body(TASK, own("One."), {"role": "user", "content": "More."}), says(own("Two.")))
    found = lane.trajectory()
    assert told(found) == [*OPENED, ("agent", ""), ("user", "More."), ("agent", "Two.")]
    assert found["steps"][2]["extra"]["omitted"] == ["answer"]


def test_embeddings_and_token_counts_are_no_steps(lane: Lane) -> None:
    """An embedding costs money all the same."""
    lane.turn(body(TASK), says(own("Done.")))
    call = lane.ask({"input": "x"}, family=Family.OPENAI_EMBEDDINGS)
    lane.head(call)
    lane.settle(call)
    lane.release(lane.ask(body(TASK), purpose="count"), 200, None)
    found = lane.trajectory()
    assert told(found) == [*OPENED, ("agent", "Done.")]
    assert found["extra"]["embedding_calls"] == 1
    assert found["final_metrics"]["total_cost_usd"] == 0.002469134
    assert found["final_metrics"]["total_prompt_tokens"] == 123


def test_metrics_are_those_of_the_settlement(lane: Lane) -> None:
    """Prompt tokens hold reads and writes of the cache; the cost is the list price on the run date."""
    lane.turn(body(TASK), says(own("Done.")), servedModel="model-1-2026", flags=["tier:flex"])
    found = lane.trajectory()
    step = found["steps"][-1]
    assert step["metrics"] == {
        "prompt_tokens": 123,
        "completion_tokens": 7,
        "cached_tokens": 20,
        "cost_usd": 0.001234567,
        "extra": {"list_nusd": 1_234_567, "standard_nusd": 1_000_000, "cache_write_tokens": 3},
    }
    assert step["extra"]["flags"] == ["tier:flex"] and step["extra"]["finish"] == "stop"
    assert found["final_metrics"]["total_completion_tokens"] == 7


@given(st.integers(-(10**15) + 1, 10**15 - 1))
def test_an_amount_is_the_exact_decimal(nusd: int) -> None:
    """The shortest form of the number, which is what JSON gets, is the amount again."""
    assert Decimal(repr(usd(nusd))) * 10**9 == nusd


def test_long_texts_are_cut_and_say_so(lane: Lane) -> None:
    """64 KiB of whole characters each; the full size stands beside them."""
    long = "é" * TEXT_LIMIT_BYTES
    arguments = json.dumps({"text": long}, ensure_ascii=False)
    size = len(long.encode())
    lane.turn(body({"role": "user", "content": long}), says(own(long, ("c1", arguments))))
    lane.turn(
        body({"role": "user", "content": long}, own(long, ("c1", arguments)), result("c1", long)),
        says({"content": "x", "reasoning_content": long}),
    )
    _, user, agent, last = lane.trajectory()["steps"]
    assert len(user["message"].encode()) == TEXT_LIMIT_BYTES and user["extra"]["cut"] == {"message": size}
    (call,) = agent["tool_calls"]
    assert call["extra"] == {"arguments_form": "text", "cut": {"arguments": len(arguments.encode())}}
    assert agent["observation"]["results"][0]["extra"] == {"cut": {"content": size}}
    assert last["extra"]["cut"] == {"reasoning_content": size}


@pytest.mark.parametrize("text", ["*** Begin", "[1]", '{"a":1,"a":2}', '{"a":NaN}', '{"a":"\\ud800"}', '{"a'])
def test_arguments_that_are_no_json_object_stay_text(lane: Lane, text: str) -> None:
    """They stand under `input`, marked, so that no reading of them is passed off as the model's."""
    lane.turn(body(TASK), says(own(None, ("c1", text))))
    (call,) = lane.trajectory()["steps"][-1]["tool_calls"]
    assert call["arguments"] == {"input": text} and call["extra"] == {"arguments_form": "text"}


def test_a_picture_is_noted_and_another_picture_is_another_message(lane: Lane) -> None:
    """Its bytes are not copied into the trajectory, but two of them do not count as the same."""
    pictures = [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:,{name}"}}]}
        for name in "ab"
    ]
    lane.turn(body(pictures[0]), says(own("A.")))
    lane.turn(body(pictures[0], own("A."), pictures[1]), says(own("B.")))
    first, second = (text for source, text in told(lane.trajectory()) if source == "user")
    assert first.startswith("[image_url: ") and second.startswith("[image_url: ") and first != second


def test_without_any_call_there_is_still_a_document(lane: Lane) -> None:
    """The format wants a step; it says that nothing was answered."""
    found = lane.trajectory()
    assert told(found) == [("system", "No model call was answered.")]
    assert found["final_metrics"]["total_cost_usd"] == 0
