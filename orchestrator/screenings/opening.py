"""The opening statement of a screening from its pack, agent and conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from orchestrator import canonical
from orchestrator.agents.revision import AgentRevision
from orchestrator.certificates import issue
from orchestrator.certificates.bound import relay_policy
from orchestrator.certificates.statements import (
    Agent,
    Caps,
    Conditions,
    Grader,
    Model,
    NetworkPolicy,
    OpenedPack,
    OpeningPredicate,
    Parties,
    PlannedTask,
    Sha256,
    Statement,
)
from orchestrator.ids import new_id
from orchestrator.packs.manifest import Role
from orchestrator.packs.pack import Pack
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.screenings.orders import Bench

NETWORK_NONE: Final[dict[str, object]] = {"id": "none", "egress": [], "name-service": None, "relay": None}
"""The policy of an agent that calls no model, as published data: nothing is reachable."""


def network_policy(conditions: ScreeningConditions) -> dict[str, object]:
    """The policy of a screening as published data: nothing, or nothing but the relay and on which terms."""
    if conditions.network == "none":
        return NETWORK_NONE
    return relay_policy(
        conditions.network,
        provider_tools=list(conditions.provider_tools),
        prices=conditions.prices_digest,
        rehearsal=conditions.rehearsal_digest,
    )


@dataclass(frozen=True)
class Sponsors:
    """Who asked for the screening, who pays, who runs it (ids; they never reach a score)."""

    requested_by: str
    funded_by: str
    operated_by: str


def grader_digest(pack: Pack) -> str:
    """One digest over every file of role grader, whatever task it belongs to."""
    files = [[file.path, file.sha256] for file in pack.lock.files if file.role is Role.GRADER]
    return canonical.digest(files)


def opening_statement(
    bench: Bench,
    sponsors: Sponsors,
    *,
    screening_id: str,
    statement_id: str,
    issuer: str,
    opened_unix_ms: int,
) -> Statement:
    """Everything that is promised before the first try starts; tasks left out are planned 0 times."""
    pack, conditions, revision = bench.pack, bench.conditions, bench.agent.revision
    rule = pack.manifest.pass_rule
    return issue.opening(
        statement_id=statement_id,
        issuer=issuer,
        screening=Parties(id=screening_id, **vars(sponsors)),
        pack=OpenedPack(
            id=pack.manifest.name,
            version=pack.manifest.version,
            digest=Sha256(sha256=pack.digest),
            declared_tries=pack.manifest.tries_per_task,
        ),
        plan=_plan(bench),
        agent=Agent(
            id=revision.name,
            version=revision.version,
            digest=Sha256(sha256=bench.agent.digest),
            connection=_connection(revision),
            models=_models(bench),
        ),
        judge=pack.manifest.judge,
        grader=Grader(
            id=f"{pack.manifest.name}/tests",
            digest=Sha256(sha256=grader_digest(pack)),
            reward_key=rule.key,
            pass_at_least=rule.at_least,
        ),
        simulator=None,
        conditions=Conditions(
            network_policy=NetworkPolicy(
                id=conditions.network, digest=Sha256(sha256=canonical.digest(network_policy(conditions)))
            ),
            step_limit=conditions.step_limit,
            cost_cap_nusd=conditions.try_cap_nusd if revision.models else None,
            screening_cap_nusd=conditions.cost_cap_nusd,
            permitted_tools=conditions.permitted_tools,
            hardware_class=conditions.published_hardware,
            runtime=conditions.runtime,
            repeats=conditions.tries,
            agent_user=conditions.agent_user,
            output_tokens=None if bench.metering is None else bench.metering.output_tokens,
        ),
        opened_unix_ms=opened_unix_ms,
    )


def _connection(revision: AgentRevision) -> Literal["none", "relay", "own-endpoint"]:
    if revision.endpoint is not None:
        return "own-endpoint"
    return "relay" if revision.models else "none"


def _models(bench: Bench) -> tuple[Model, ...]:
    """The agent's models with the providers that are pinned for this screening."""
    pinned = {} if bench.metering is None else {one.role: one.provider for one in bench.metering.terms.models}
    return tuple(
        Model(role=model.role, id=model.id, snapshot=None, provider=pinned.get(model.role))
        for model in bench.agent.revision.models
    )


def comparability_of(bench: Bench, sponsors: Sponsors, issuer: str) -> str:
    """The digest that the opening will carry: two screenings may be compared when it is equal (S4-33).

    It rests on pack, conditions and limits only, so ids and times of this draft do not matter.
    """
    draft = opening_statement(
        bench, sponsors, screening_id=new_id(0, 0), statement_id=new_id(0, 0), issuer=issuer, opened_unix_ms=0
    )
    predicate = draft.predicate
    if not isinstance(predicate, OpeningPredicate):
        raise TypeError("an opening statement carries an opening predicate")
    return predicate.conditions.comparability.sha256


def _plan(bench: Bench) -> list[PlannedTask]:
    conditions = bench.conditions
    chosen = None if conditions.tasks is None else set(conditions.tasks)
    return [
        PlannedTask(
            task_id=task.id,
            digest=Sha256(sha256=task.record_digest),
            tries=conditions.tries if chosen is None or task.id in chosen else 0,
            answer_key_withheld=False,
            caps=Caps(**vars(bench.caps(task))),
        )
        for task in bench.pack.tasks
    ]
