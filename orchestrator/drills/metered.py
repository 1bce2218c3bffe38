"""The rows that need a model: trouble of the provider, of the relay and of the pod."""

from __future__ import annotations

from typing import Final

from orchestrator.drills.rows import Row, Scene
from scoring.vocabulary import Reason

MODEL: Final = "drill-model"
PROVIDER: Final = "drill"
MODEL_OF_NOBODY: Final = "drill-model-down"
PROVIDER_DOWN: Final = "drill-down"
"""A provider at whose address nobody listens."""

_ASK: Final = """
import http.client, json, os, sys

def ask(text, model="{model}", stream=False, raw=None):
    token = os.environ["ASSIZE_RELAY_TOKEN"]
    head = {{"authorization": "Bearer " + token, "content-type": "application/json"}}
    body = {{"model": model, "max_tokens": 10, "stream": stream,
            "messages": [{{"role": "user", "content": text}}]}}
    way = http.client.HTTPConnection("127.0.0.1", 8080, timeout=120)
    try:
        way.request("POST", "/v1/chat/completions", raw or json.dumps(body), head)
        answer = way.getresponse()
        data = answer.read()
        return answer.status if not stream or b"[DONE]" in data else 0
    except (OSError, http.client.HTTPException):
        return 0

def done():
    open("/tmp/out.txt", "w").write("done")

"""
_THEN: Final = 'if ask("{row}"{more}) == 200:\n    done()\nelse:\n    sys.exit(1)\n'


def _work(row: str, more: str = "", model: str = MODEL) -> str:
    return _ASK.format(model=model) + _THEN.format(row=row, more=more)


def _provider(name: str, injected: str, fault: str, reason: Reason, more: str = "") -> tuple[Row, str]:
    evidence = "provider_outage" if reason is Reason.PROVIDER_OUTAGE else "relay_fault"
    row = Row(
        name,
        injected,
        ("sandbox 10",),
        Scene.METERED,
        reason,
        (evidence,),
        suspect=True,
        work=_work(name, more),
    )
    return row, fault


_PROVIDER: Final = (
    _provider("provider-500", "the provider answers 500", "status = 500", Reason.PROVIDER_OUTAGE),
    _provider("provider-529", "the provider is overloaded (529)", "status = 529", Reason.PROVIDER_OUTAGE),
    _provider("provider-429", "the provider throttles (429)", "status = 429", Reason.PROVIDER_OUTAGE),
    _provider(
        "provider-cut",
        "the provider's stream breaks off",
        "cut_after_events = 1",
        Reason.PROVIDER_OUTAGE,
        ", stream=True",
    ),
    _provider(
        "house-key-refused", "the provider refuses the house's key", "status = 401", Reason.RELAY_FAULT
    ),
)
_LATE: Final = ("relay-killed", "pod-killed")
_OPEN_MS: Final = 30_000
"""How long a call stays open; the re-run waits as long if the blow fell before the provider had the call."""


def script() -> str:
    """What the scripted provider says: each row's trouble once per conversation, then an answer."""
    parts = ['format = "assize.rehearsal/1"', f'models = ["{MODEL}"]']
    for row, fault in _PROVIDER:
        parts.append(_conversation(row.name, fault))
    parts += [_conversation(name, f"delay_ms = {_OPEN_MS}") for name in _LATE]
    parts.append('[[turn]]\nsay = "hello"')
    return "\n".join(parts) + "\n"


def _conversation(when: str, fault: str) -> str:
    return f'[[conversation]]\nwhen = "{when}"\n[[conversation.turn]]\nsay = "hello"\nfault = {{ {fault} }}\n'


METERED: Final = (
    Row(
        "none-metered",
        "nothing, with a model",
        ("inspect 1",),
        Scene.METERED,
        Reason.ALL_CHECKS_PASSED,
        ("reward", "reward_passes"),
        work=_work("none-metered"),
        seen=("relay_calls",),
    ),
    *(row for row, _ in _PROVIDER),
    Row(
        "provider-gone",
        "nobody listens where the provider was, in every attempt",
        ("sandbox 10",),
        Scene.METERED,
        Reason.PROVIDER_OUTAGE,
        ("provider_outage",),
        blows=3,
        suspect=True,
        work=_work("provider-gone", model=MODEL_OF_NOBODY),
    ),
    Row(
        "relay-killed",
        "kill -9 of the relay while a model call is open",
        ("sandbox 9",),
        Scene.METERED,
        Reason.RELAY_FAULT,
        ("relay_fault",),
        blow="kill-relay",
        suspect=True,
        work=_work("relay-killed"),
    ),
    Row(
        "pod-killed",
        "somebody kills the forwarder of the pod while a model call is open",
        ("sandbox 9", "sandbox 12"),
        Scene.METERED,
        Reason.RELAY_FAULT,
        ("relay_fault",),
        blow="kill-forwarder",
        suspect=True,
        work=_work("pod-killed"),
    ),
    Row(
        "network-exhausted",
        "every subnet for the pod's network is taken",
        ("sandbox 17",),
        Scene.METERED,
        Reason.SANDBOX_START,
        ("start_error",),
        blow="no-network",
        work=_work("network-exhausted"),
    ),
    Row(
        "request-refused",
        "the agent asks for a model that it was not given, and gives up",
        ("sandbox 10",),
        Scene.METERED,
        Reason.CRASH,
        ("agent_exit_code",),
        work=_work("request-refused", ', model="somebody-elses"'),
    ),
)
