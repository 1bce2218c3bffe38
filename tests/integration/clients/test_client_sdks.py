"""The vendors' own Python SDKs, unmodified, through the relay from inside a sandbox: JSON and streams."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from orchestrator.evidence import metering
from orchestrator.evidence.transcript import Kind, ledger_of
from scoring.vocabulary import Outcome, Reason
from workers.sandbox.preflight import judge

if TYPE_CHECKING:
    from tests.integration.clients.conftest import Ran, RunClient

pytestmark = pytest.mark.docker

ASKED: Final = {"input": 90, "cached": 64, "output": 40, "text": "I will write the file."}
DONE: Final = {"input": 130, "cached": 96, "output": 12, "text": "Done: hello.txt holds the greeting."}
UNPINNED: Final = {"status": 403, "code": "model_not_pinned"}
NO_MONEY: Final = {"status": 402, "code": "cap_reached"}


def calls_of(run_client: RunClient, name: str, folders: tuple[str, ...]) -> Ran:
    """One attempt of the SDK `name` with its one model."""
    return run_client(["python3", "/opt/agent/run.py", f"{name}_calls"], [f"rehearsal-{name}"], folders)


def conversations(*ends: tuple[str, str]) -> list[dict[str, Any]]:
    """What an SDK sees of one two-turn conversation for each pair of finish reasons."""
    return [turn for asked, done in ends for turn in ({**ASKED, "end": asked}, {**DONE, "end": done})]


def assert_tests_passed(ran: Ran) -> None:
    """Every conversation left hello.txt, and the script saw nothing that it did not expect."""
    assert ran.report.observations["agent_exit_code"] == 0, ran.files["agent/stderr.txt"].decode()
    assert ran.report.decision.outcome is Outcome.PASSED, ran.report.observations


def assert_metered(ran: Ran, reported: list[dict[str, Any]]) -> None:
    """The meter counted what the SDK was told, call by call, and the transcript proves it."""
    counted = [
        {"input": line["inputTokens"], "cached": line["cachedInputTokens"], "output": line["outputTokens"]}
        for line in ran.ledger
    ]
    assert counted == [{name: turn[name] for name in ("input", "cached", "output")} for turn in reported]
    assert {line["completeness"] for line in ran.ledger} == {metering.EXACT}
    assert ran.chain.torn_bytes == 0 and ran.chain.records[-1]["kind"] == Kind.CLOSE
    assert metering.encode(metering.ledger_lines(ran.chain)) == ran.files[metering.FILE_NAME]
    spent_nusd = sum(line["costNusd"] for line in ran.ledger)
    assert ran.report.spent_nusd == ledger_of(ran.chain.records).spent_nusd == spent_nusd > 0
    lane = ran.sandbox["relay"]["lane"]
    assert (lane["steps"], lane["held_nusd"], lane["tally"]["complete"]) == (len(reported), 0, True)


def assert_alone(ran: Ran) -> None:
    """The relay was the only thing to reach, for a user that is not root."""
    preflight = ran.sandbox["preflight"]
    assert ran.sandbox["network"] == "relay-only" and ran.sandbox["user"] == "1000:1000"
    assert judge(preflight) == [] and preflight["interfaces"] == ["lo"]
    assert not any(probe["reached"] for probe in preflight["probes"])


def streamed(ran: Ran) -> list[bool]:
    """Whether each metered call was asked for as a stream, in order."""
    metered = {line["call"] for line in ran.ledger}
    return [
        ":streamGenerateContent" in record["data"]["path"]
        or json.loads(record["payload"]["text"]).get("stream", False)
        for record in ran.chain.records
        if record["kind"] == Kind.REQUEST and record["call"] in metered
    ]


def test_openai_sdk_chat_and_responses(run_client: RunClient) -> None:
    """Both of the SDK's ways to converse, JSON and streamed; embeddings and the model list beside them."""
    folders = ("chat-json", "chat-stream", "responses-json", "responses-stream")
    ran = calls_of(run_client, "openai", folders)
    assert_tests_passed(ran)
    chat, responses = ("tool_calls", "stop"), ("completed", "completed")
    assert ran.saw["turns"] == conversations(chat, chat, responses, responses)
    embeddings = ran.saw["embeddings"]
    assert (embeddings["vectors"], embeddings["numbers"]) == (2, [True, True])
    assert ran.saw["models"] == ["rehearsal-openai"]
    # The stream without usage is the call before the embeddings; the SDK was told no figures to compare.
    assert_metered(ran, [*ran.saw["turns"], ASKED, embeddings])
    assert streamed(ran) == [*[False, False, True, True] * 2, True, False]
    assert_alone(ran)


def test_openai_sdk_sees_no_usage_that_it_did_not_ask_for(run_client: RunClient) -> None:
    """The meter adds `include_usage` and hides its chunk; a refusal is the SDK's own error, made once."""
    ran = calls_of(run_client, "openai", ())
    assert ran.saw["plainStream"] == {"text": ASKED["text"], "withUsage": 0, "withoutChoices": 0}
    assert ran.saw["unpinned"] == {"type": "PermissionDeniedError", **UNPINNED}
    assert ran.sandbox["relay"]["lane"]["tally"]["refusals"] == {"model_not_pinned": 1}


def test_anthropic_sdk_messages(run_client: RunClient) -> None:
    """Messages in JSON and streamed, a count that costs nothing, the model list and a refusal."""
    ran = calls_of(run_client, "anthropic", ("messages-json", "messages-stream"))
    assert_tests_passed(ran)
    assert ran.saw["turns"] == conversations(("tool_use", "end_turn"), ("tool_use", "end_turn"))
    assert_metered(ran, ran.saw["turns"])
    assert streamed(ran) == [False, False, True, True]
    assert ran.saw["counted"] > 0 and ran.saw["models"] == ["rehearsal-anthropic"]
    refused = {"type": "PermissionDeniedError", "kind": "permission_error", **UNPINNED}
    assert ran.saw["unpinned"] == refused
    assert ran.sandbox["relay"]["lane"]["tally"]["refusals"] == {"model_not_pinned": 1}
    assert_alone(ran)


def test_google_sdk_generate_content(run_client: RunClient) -> None:
    """generateContent and streamGenerateContent, a count that costs nothing, the model list and a refusal."""
    ran = calls_of(run_client, "google", ("generate-json", "generate-stream"))
    assert_tests_passed(ran)
    assert ran.saw["turns"] == conversations(("STOP", "STOP"), ("STOP", "STOP"))
    assert_metered(ran, ran.saw["turns"])
    assert streamed(ran) == [False, False, True, True]
    assert ran.saw["counted"] > 0 and ran.saw["models"] == ["models/rehearsal-google"]
    assert ran.saw["unpinned"] == {"type": "ClientError", "kind": "PERMISSION_DENIED", **UNPINNED}
    assert ran.sandbox["relay"]["lane"]["tally"]["refusals"] == {"model_not_pinned": 1}
    assert_alone(ran)


def test_a_refusal_for_money_is_each_sdks_own_error(run_client: RunClient) -> None:
    """402 in the family's shape: no SDK repeats the call, no provider gets it, no step is counted."""
    models = ("rehearsal-openai", "rehearsal-anthropic", "rehearsal-google")
    ran = run_client(["python3", "/opt/agent/run.py", "no_money_calls"], models, (), cap_nusd=0)
    assert ran.saw == {
        "openai": {"type": "APIStatusError", **NO_MONEY},
        "anthropic": {"type": "PaymentRequiredError", "kind": "billing_error", **NO_MONEY},
        "google": {"type": "ClientError", "kind": "RESOURCE_EXHAUSTED", **NO_MONEY},
    }
    kinds = [record["kind"] for record in ran.chain.records]
    assert kinds == [Kind.OPEN, Kind.DENY, Kind.DENY, Kind.DENY, Kind.CLOSE]
    assert (ran.ledger, ran.report.spent_nusd) == ([], 0)
    assert (ran.report.decision.outcome, ran.report.decision.reason) == (Outcome.FAILED, Reason.COST_CAP)
