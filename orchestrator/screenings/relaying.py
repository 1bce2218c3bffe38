"""What a screening's agent may call and spend: models with their providers, prices, caps, or a rehearsal."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from orchestrator.agents.registry import RegisteredAgent
from orchestrator.agents.revision import AgentRevision, ModelRole
from orchestrator.attempts import PinnedModel, RelayTerms
from orchestrator.errors import HostError, UsageError
from orchestrator.evidence.transcript import ledger_of, read_whole
from orchestrator.home import Home
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.providers import add_limits, set_limits
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.prices.errors import UnpricedError
from orchestrator.prices.sheet import PriceSheet
from orchestrator.providers import FILE_NAME, Account, FamilyName, load_accounts, require_key
from orchestrator.screenings.images import open_store
from orchestrator.screenings.least_cap import output_limit, require_least_cap
from orchestrator.screenings.wires import BARE_WIRES, wire_of
from sandbox_images.base import BASE_IMAGE, ensure_base

SCRIPT_GROUP: Final = "assize.rehearsal"
DEFAULT_TRY_CAP_NUSD: Final = 1_000_000_000
DEFAULT_STEP_LIMIT: Final = 100


@dataclass(frozen=True)
class Metering:
    """The terms of one agent's model calls in a screening.

    `wire` is the format in which the agent, or the worker for a bare model, asks. `output_tokens` is the
    output maximum that the agent is told, None for one that cannot be told.
    """

    terms: RelayTerms
    wire: FamilyName
    output_tokens: int | None = None


def providers_of(metering: Metering) -> tuple[str, ...]:
    """The providers of an agent's models, each once, by name."""
    return tuple(sorted({one.provider for one in metering.terms.models}))


def take_limits(home: Home, ledger: Ledger, *, whole: bool) -> None:
    """Take this home's limits of tries by provider into the ledger; `ProviderError` for a wrong file.

    `whole`: they are all there are. Else providers without one here keep theirs: a ledger serves many homes,
    and most of them do not know every provider.
    """
    accounts = load_accounts(home.root / FILE_NAME)
    limits = {name: one.max_tries for name, one in accounts.items() if one.max_tries is not None}
    if whole:
        set_limits(ledger, limits)
    else:
        add_limits(ledger, limits)


def find_script(value: str) -> Path:
    """The rehearsal script that a bundled name or a path means; refused by its owner if it is wrong."""
    found = [point for point in entry_points(group=SCRIPT_GROUP) if point.name == "script"]
    if not found:
        raise HostError("no scripted provider is installed", hint="install Assize with its workers")
    load: Callable[[str], Path] = found[0].load()
    return load(value)


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def keep_sheet(home: Home, sheet: PriceSheet) -> Path:
    """Store a price sheet under its digest, so that a resumed screening has the one it began with."""
    path = home.root / "prices" / f"{sheet.digest}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".new")
        temporary.write_text(sheet.text(), "utf-8")
        temporary.replace(path)
    return path


def keep_script(home: Home, path: Path) -> tuple[Path, str]:
    """Store a rehearsal script under its digest; returns file and digest."""
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    kept = home.root / "rehearsals" / f"{digest}.toml"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        temporary = kept.with_suffix(".new")
        temporary.write_bytes(data)
        temporary.replace(kept)
    return kept, digest


def role_of(text: str, sheet: PriceSheet, role: str = "main") -> ModelRole:
    """`PROVIDER/MODEL` or `MODEL` in a role; a prefix that the sheet knows is a provider."""
    prefix, slash, rest = text.partition("/")
    known = {entry.provider for entry in sheet.entries}
    provider, model = (prefix, rest) if slash and prefix in known else (None, text)
    try:
        return ModelRole(role=role, id=model, provider=provider)
    except ValidationError:
        raise UsageError(f"{text!r} is no model name", hint="write PROVIDER/MODEL or MODEL") from None


def with_model(
    agent: RegisteredAgent, model: ModelRole | None, small: ModelRole | None = None
) -> RegisteredAgent:
    """The agent as it is screened: one that works with any model gets `model` and a digest of its own.

    `small` is for its role of that name; `AgentError` where it has none.
    """
    if agent.revision.any_model:
        if model is None:
            raise UsageError(
                f"agent {agent.revision.label} needs a model", hint="name one: --model PROVIDER/MODEL"
            )
        revision = agent.revision.with_model(model, small)
        return replace(agent, revision=revision, digest=revision.digest)
    return agent


def pinned(role: ModelRole, sheet: PriceSheet, on: date) -> PinnedModel:
    """The model with its provider; `UsageError` when it has no price on the day, or is sold by several."""
    provider = role.provider
    if provider is None:
        sold_by = sheet.providers_of(role.id, on)
        if len(sold_by) != 1:
            what = f"is sold by {', '.join(sold_by)}" if sold_by else "has no price in the sheet"
            raise UsageError(
                f"model {role.id} {what} on {on}",
                hint="write PROVIDER/MODEL; `assize prices show` lists the priced models",
            )
        provider = sold_by[0]
    try:
        sheet.entry(provider, role.id, on)
    except UnpricedError as error:
        raise UsageError(error.message, hint="`assize prices show` lists the priced models") from None
    return PinnedModel(role.role, role.id, provider)


def models_of(
    agent: RegisteredAgent, sheet: PriceSheet, accounts: Mapping[str, Account], on: date, *, rehearsed: bool
) -> tuple[PinnedModel, ...]:
    """The models that an agent may call, each with a price on the day and a key, if it is not rehearsed.

    Raises `UsageError` as `pinned`, and `ProviderError` for a provider that is unknown or has no key.
    """
    models = tuple(pinned(role, sheet, on) for role in agent.revision.models)
    if not rehearsed:
        for model in models:
            require_key(accounts, model.provider)
    return models


def way_of_asking(
    revision: AgentRevision,
    models: Sequence[PinnedModel],
    conditions: ScreeningConditions,
    sheet: PriceSheet,
    accounts: Mapping[str, Account],
) -> tuple[FamilyName, int | None]:
    """The format of an agent's calls and the output maximum it is told (None: it cannot be told).

    `UsageError` when agent and providers share no format, or the try cap does not pay for a first call.
    """

    def families(provider: str) -> Sequence[FamilyName]:
        known = accounts.get(provider)
        return known.families if known else BARE_WIRES

    wire = wire_of(revision, models, families)
    output_tokens = output_limit(revision, conditions, models, sheet, datetime.now(UTC).date())
    require_least_cap(revision, conditions, models, sheet, output_tokens)
    return wire, output_tokens


def conditions_for(agent: RegisteredAgent, conditions: ScreeningConditions) -> ScreeningConditions:
    """The conditions as they hold for this agent: one that calls no model has no way out and no money.

    An agent at its own endpoint keeps the limit on calls, which are those that the worker makes to it.
    """
    if agent.revision.models:
        return conditions
    return conditions.model_copy(
        update={
            "network": "none",
            "step_limit": conditions.step_limit if agent.revision.endpoint else None,
            "cost_cap_nusd": None,
            "try_cap_nusd": 0,
            "output_tokens": None,
            "provider_tools": (),
            "prices_digest": None,
            "rehearsal_digest": None,
        }
    )


def metering_for(
    home: Home,
    agent: RegisteredAgent,
    conditions: ScreeningConditions,
    say: Callable[[str], None],
    *,
    image: str | None = None,
) -> Metering | None:
    """The relay's terms for an agent's screening; None for an agent that calls no model.

    With `image` no engine is asked for the forwarder's image: for terms that are only looked at.

    Raises `UsageError` for a model without a price, a provider without a key or with no format of the
    agent's, and a try cap that pays for no call, before anything is planned.
    """
    revision = agent.revision
    if not revision.models:
        return None
    if conditions.prices_digest is None:
        raise UsageError(f"agent {revision.label} calls models, but the conditions name no price sheet")
    sheet_path = home.root / "prices" / f"{conditions.prices_digest}.json"
    sheet, today = PriceSheet.load(sheet_path), datetime.now(UTC).date()
    accounts_path = home.root / FILE_NAME
    accounts = load_accounts(accounts_path)
    rehearsal = conditions.rehearsal_digest
    models = models_of(agent, sheet, accounts, today, rehearsed=rehearsal is not None)
    script = None if rehearsal is None else home.root / "rehearsals" / f"{rehearsal}.toml"
    wire, output_tokens = way_of_asking(revision, models, conditions, sheet, accounts)
    terms = RelayTerms(
        models=models,
        cap_nusd=conditions.try_cap_nusd,
        step_limit=conditions.step_limit,
        provider_tools=conditions.provider_tools,
        price_sheet=sheet_path,
        prices_digest=conditions.prices_digest,
        accounts=accounts_path,
        rehearsal=script,
        state_root=home.root / "relay",
        forwarder_image=_forwarder_image(home, say) if image is None else image,
    )
    return Metering(terms, wire, output_tokens)


def _forwarder_image(home: Home, say: Callable[[str], None]) -> str:
    store = open_store(home, say)
    try:
        return ensure_base(store, BASE_IMAGE).id
    finally:
        store.client.close()


def metered_nusd(home: Home, attempt_id: str) -> int | None:
    """What an attempt without a report cost so far, from the transcripts it left; None without any.

    Settled calls and the hold of every call that was never settled; a transcript that was damaged counts
    as far as it is whole.
    """
    found = sorted(_left(home, attempt_id).glob("*/transcript.jsonl"))
    return sum(ledger_of(read_whole(path.read_bytes())).spent_nusd for path in found) if found else None


def left_transcript(home: Home, attempt_id: str) -> bytes | None:
    """The transcript of an agent's calls that an attempt without a report left; None without any."""
    try:
        return (_left(home, attempt_id) / "agent" / "transcript.jsonl").read_bytes()
    except OSError:
        return None


def forget_left(home: Home, attempt_id: str) -> None:
    """Remove what a lost attempt's relay left: its certificate is signed, and rests on evidence by now."""
    shutil.rmtree(_left(home, attempt_id), ignore_errors=True)


def _left(home: Home, attempt_id: str) -> Path:
    return home.root / "relay" / attempt_id
