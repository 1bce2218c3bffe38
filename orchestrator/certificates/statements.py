"""The predicates as strict models: what the issuing side fills in (certificates.md 3.2).

Python names are snake case, the wire is camel case. Money is integer nano-USD, durations are ms, times
are whole-second UTC text, rewards are decimal text; there is no float. `schema` holds the same rules
as tables for the verifying side, and every signature passes through both. The predicate of notices is in
`notice_statement`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
)
from pydantic.alias_generators import to_camel

from orchestrator.canonical import MAX_INTEGER
from orchestrator.certificates import schema
from scoring.vocabulary import Outcome, Phase, Reason

Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Ulid = Annotated[str, StringConstraints(pattern=r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$")]
Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._:@/+_-]{0,127}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/+_-]{0,127}$")]
Utc = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]
Decimal = Annotated[str, StringConstraints(pattern=r"^-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?$")]
Judge = Annotated[
    str,
    StringConstraints(
        pattern=r"^(programmatic|[A-Za-z0-9][A-Za-z0-9._:@/+_-]{0,127}@[0-9]{4}-[0-9]{2}-[0-9]{2})$"
    ),
]
Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Positive = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
Ordinal = Annotated[int, Field(ge=1, le=schema.MAX_TRIES)]
Label = Literal["independently-evaluated", "publisher-reported", "community-reported"]
Level = Literal["verified", "unverified", "simulated"]
GradingPlace = Literal["fresh", "in_place"]


def utc_text(unix_ms: int) -> str:
    """Whole-second UTC text of a Unix time in milliseconds (rounded down)."""
    return datetime.fromtimestamp(unix_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Strict(BaseModel):
    """Base of every model here: no unknown field, no coercion, no change."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, populate_by_name=True
    )


class Sha256(Strict):
    """A digest set with one SHA-256."""

    sha256: Hex64


class Parties(Strict):
    """Who asked for the screening, who paid and who ran it."""

    id: Ulid
    requested_by: Id
    funded_by: Id
    operated_by: Id


class BoundParties(Parties):
    """The parties, bound to the digest of their opening."""

    opening_digest: Sha256


class Pack(Strict):
    """A pack version by the digest of its manifest."""

    id: Id
    version: Name
    digest: Sha256


class OpenedPack(Pack):
    """A pack with the number of tries per task that it declares."""

    declared_tries: Ordinal


class Caps(Strict):
    """The limits of one attempt (ms, bytes, thousandths of a CPU)."""

    agent_wall_ms: Positive
    grade_wall_ms: Positive
    memory_bytes: Positive
    cpus_milli: Positive
    pids: Positive
    output_bytes: Positive
    artifact_bytes: Positive


class PlannedTask(Strict):
    """One task of the pack in pack order; `tries` is 0 for a task that is left out."""

    task_id: Name
    digest: Sha256
    tries: Annotated[int, Field(ge=0, le=schema.MAX_TRIES)]
    answer_key_withheld: bool
    caps: Caps


class Later(Strict):
    """A model with fields that statements of earlier versions lack: they are written only where known."""

    LATER: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        return {name: value for name, value in written.items() if value is not None or name not in self.LATER}


class Model(Later):
    """A model that the agent declares to use, and who sells it (None where nothing was pinned)."""

    LATER = frozenset({"provider"})

    role: Id
    id: Name
    snapshot: Name | None
    provider: Name | None = None


class Agent(Strict):
    """An agent revision."""

    id: Id
    version: Name
    digest: Sha256
    connection: Literal["none", "relay", "own-endpoint"]
    models: tuple[Model, ...]


class Grader(Strict):
    """What grades, and from which reward on a try passes."""

    id: Id
    digest: Sha256
    reward_key: Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]{1,128}$")]
    pass_at_least: Decimal


class Simulator(Strict):
    """The simulated customer, and who pays for it."""

    id: Name
    snapshot: Name | None
    paid_by: Id


class NetworkPolicy(Strict):
    """What the sandbox may reach."""

    id: Id
    digest: Sha256


class Conditions(Later):
    """Conditions that hold for the whole screening.

    `cost_cap_nusd` caps one try and `screening_cap_nusd` all of them (None: no cap); `permitted_tools`
    None means not restricted; `runtime` is the container runtime that was asked for. `agent_user` is the
    screening's own choice of the agent's user, `output_tokens` the output maximum of one model call.
    """

    LATER = frozenset({"agentUser", "agent_user", "outputTokens", "output_tokens"})

    network_policy: NetworkPolicy
    step_limit: Positive | None
    cost_cap_nusd: Count | None
    screening_cap_nusd: Count | None
    permitted_tools: tuple[Name, ...] | None
    hardware_class: Name
    runtime: Name
    repeats: Ordinal
    agent_user: Name | None = None
    output_tokens: Positive | None = None


class ComparableConditions(Conditions):
    """The conditions with the digest that says what may be compared."""

    comparability: Sha256


class Image(Strict):
    """An image that was really used, by Id."""

    role: Id
    digest: Sha256


class Runner(Strict):
    """Our own code that ran the attempt."""

    version: Name
    digest: Sha256


class Sandbox(Strict):
    """Where the attempt really ran; `runtime` is read back from the engine, None if nothing started."""

    level: Level
    runtime: Name | None
    grading_place: GradingPlace
    images: tuple[Image, ...]
    runner: Runner


class PriceList(Strict):
    """The dated price sheet behind a cost."""

    id: Id
    date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    digest: Sha256


class TranscriptHead(Strict):
    """The relay's transcript in the evidence: how many records, and the hash of the last one."""

    records: Positive
    head: Sha256


class Provider(Strict):
    """Where model calls went: the address behind a provider's name, without its account."""

    name: Name
    address: Annotated[str, StringConstraints(pattern=r"^https?://[!-~]{1,500}$")]


class Usage(Later):
    """What the agent used. Unknown is None, never 0; without metering everything is None.

    `cost_nusd` is the list price on the run date, `standard_cost_nusd` the base tier at any hour; both are
    of the model calls alone. If one call is not exactly known, no figure is, and `requests` still is.
    `providers` are those that the relay could reach, as its transcript says.
    """

    LATER = frozenset({"providers"})

    metered: bool
    requests: Count | None
    input_tokens: Count | None
    cached_input_tokens: Count | None
    output_tokens: Count | None
    cost_nusd: Count | None
    standard_cost_nusd: Count | None
    paid_tool_calls_nusd: Count | None
    price_list: PriceList | None
    transcript: TranscriptHead | None
    providers: tuple[Provider, ...] | None = None

    @classmethod
    def none_possible(cls) -> Usage:
        """Metered as nothing: the sandbox had no network and no relay, so there were no model calls."""
        return cls(
            metered=True,
            requests=0,
            input_tokens=0,
            cached_input_tokens=0,
            output_tokens=0,
            cost_nusd=0,
            standard_cost_nusd=0,
            paid_tool_calls_nusd=0,
            price_list=None,
            transcript=None,
        )

    @classmethod
    def unmetered(cls) -> Usage:
        """Nothing is known."""
        return cls(
            metered=False,
            requests=None,
            input_tokens=None,
            cached_input_tokens=None,
            output_tokens=None,
            cost_nusd=None,
            standard_cost_nusd=None,
            paid_tool_calls_nusd=None,
            price_list=None,
            transcript=None,
        )


class CertifiedTask(Strict):
    """The task of a try."""

    id: Name
    digest: Sha256
    answer_key_withheld: bool
    caps: Caps


class TrySlot(Strict):
    """Which try and which attempt of it; `replaces` names the platform fault that allowed this attempt."""

    id: Ulid
    attempt_id: Ulid
    index: Ordinal
    of: Ordinal
    attempt: Ordinal
    replaces: Sha256 | None


class Result(Strict):
    """How the attempt ended: the decision of `orchestrator.faults` and the grader's figures."""

    outcome: Outcome
    reason: Reason
    phase: Phase
    fault_class: Literal["agent", "platform"] | None
    rule: Id
    rests_on: tuple[Id, ...]
    suspect: bool
    reward: Decimal | None
    checks_passed: Count | None
    checks_total: Count | None


class OpeningTime(Strict):
    """When the screening was opened."""

    opened_at: Utc
    issued_at: Utc


class TryTime(Strict):
    """When the attempt was handed off and finished; `wall_ms` is measured on a monotonic clock."""

    handed_off_at: Utc
    finished_at: Utc
    issued_at: Utc
    wall_ms: Count


class SummaryTime(Strict):
    """When the screening was closed."""

    closed_at: Utc
    issued_at: Utc


class Predicate(Strict):
    """What every predicate has. `critical` names fields that a verifier must understand."""

    STATEMENT: ClassVar[str]
    SUBJECT: ClassVar[str]

    minor: Literal[0] = schema.MINOR
    critical: tuple[Name, ...] = ()
    issuer: Id
    visibility: Literal["public"] = "public"

    def subject_name(self) -> str:
        """What the one subject of the statement is called."""
        return self.SUBJECT


class OpeningPredicate(Predicate):
    """`screening-opening/v1`: what is planned, before the first try starts."""

    STATEMENT = schema.OPENING
    SUBJECT = "pack-manifest.json"

    statement_id: Ulid
    screening: Parties
    pack: OpenedPack
    plan: Annotated[tuple[PlannedTask, ...], Field(min_length=1, max_length=schema.MAX_TASKS)]
    agent: Agent
    judge: Judge
    grader: Grader
    simulator: Simulator | None
    conditions: ComparableConditions
    time: OpeningTime
    provenance_label: Label


class TryPredicate(Predicate):
    """`try-certificate/v1`: how one attempt ended."""

    STATEMENT = schema.TRY
    SUBJECT = "evidence-manifest.json"

    certificate_id: Ulid
    screening: BoundParties
    pack: Pack
    task: CertifiedTask
    slot: TrySlot = Field(alias="try")
    agent: Agent
    judge: Judge
    grader: Grader
    simulator: Simulator | None
    sandbox: Sandbox
    conditions: ComparableConditions
    usage: Usage
    result: Result
    time: TryTime
    provenance_label: Label


class ListedCertificate(Strict):
    """A certificate in the summary."""

    task_id: Name
    index: Ordinal
    attempt: Ordinal
    outcome: Outcome
    reason: Reason
    level: Level
    wall_ms: Count
    digest: Sha256


class UnrecordedTry(Strict):
    """A planned try without any certificate."""

    task_id: Name
    index: Ordinal
    why: Literal["never_recorded", "cancelled"]


class SummaryPredicate(Predicate):
    """`screening-summary/v1`: every certificate and every planned try that has none."""

    STATEMENT = schema.SUMMARY
    SUBJECT = "opening.json"

    statement_id: Ulid
    screening: BoundParties
    certificates: tuple[ListedCertificate, ...]
    unrecorded: tuple[UnrecordedTry, ...]
    time: SummaryTime


class Statement:
    """An in-toto Statement v1 with one of our predicates and its one subject."""

    def __init__(self, subject_sha256: str, predicate: Predicate) -> None:
        self.kind = predicate.STATEMENT
        self.subject_sha256 = subject_sha256
        self.predicate = predicate

    def as_data(self) -> dict[str, Any]:
        """The wire form as plain data."""
        return {
            "_type": schema.STATEMENT,
            "predicateType": schema.PREFIX + self.kind,
            "subject": [{"name": self.predicate.subject_name(), "digest": {"sha256": self.subject_sha256}}],
            "predicate": self.predicate.model_dump(mode="json", by_alias=True),
        }
