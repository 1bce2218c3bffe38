"""What a screening may cost, known before anything is planned: its models with their prices, and the caps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from orchestrator.agents.registry import RegisteredAgent
from orchestrator.attempts import PinnedModel
from orchestrator.endpoints import FILE_NAME as ENDPOINTS
from orchestrator.endpoints import listed
from orchestrator.home import Home
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.prices.entry import ModelPrice
from orchestrator.prices.sheet import PriceSheet
from orchestrator.providers import FILE_NAME, load_accounts
from orchestrator.screenings.relaying import models_of, way_of_asking


@dataclass(frozen=True)
class Spending:
    """The model calls of one agent: `models` with their prices of today, none for an agent that calls none.

    `tries` is the number of tries to come, `cap_nusd` what they may spend together (None: no cap beside
    that of each try), `rehearsed` that nothing is paid.
    """

    agent: str
    models: tuple[tuple[PinnedModel, ModelPrice], ...]
    tries: int
    try_cap_nusd: int
    cap_nusd: int | None
    rehearsed: bool

    @property
    def most_nusd(self) -> int:
        """The most that these tries may spend, nano-USD.

        A try that is repeated after a platform fault or an interruption may spend its cap again, which is
        booked to the platform and not in here.
        """
        worst = self.tries * self.try_cap_nusd if self.models else 0
        return worst if self.cap_nusd is None else min(worst, self.cap_nusd)


def spending_of(
    home: Home, agent: RegisteredAgent, conditions: ScreeningConditions, sheet: PriceSheet, tasks: int
) -> Spending:
    """What `agent` may spend on `tasks` tasks.

    `UsageError` for a model without a price today, or one that the agent cannot ask or pay a call of;
    `ProviderError` for a provider without a key; `EndpointError` for an endpoint that is not listed.
    """
    if agent.revision.endpoint is not None:
        listed(home.root / ENDPOINTS, agent.revision.endpoint)
    today, rehearsed = datetime.now(UTC).date(), conditions.rehearsal_digest is not None
    accounts = load_accounts(home.root / FILE_NAME) if agent.revision.models else {}
    models = models_of(agent, sheet, accounts, today, rehearsed=rehearsed)
    if models:
        way_of_asking(agent.revision, models, conditions, sheet, accounts)
    return Spending(
        agent=agent.revision.label,
        models=tuple((one, sheet.entry(one.provider, one.model, today)) for one in models),
        tries=tasks * conditions.tries,
        try_cap_nusd=conditions.try_cap_nusd,
        cap_nusd=conditions.cost_cap_nusd,
        rehearsed=rehearsed,
    )


def paid(spendings: Sequence[Spending]) -> list[Spending]:
    """Those in which money may be spent."""
    return [one for one in spendings if one.models and not one.rehearsed]
