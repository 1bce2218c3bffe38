"""From a claimed slot to the order that a worker gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from orchestrator import canonical
from orchestrator.agents.registry import RegisteredAgent
from orchestrator.agents.revision import AgentRevision
from orchestrator.attempts import (
    AttemptControl,
    AttemptFunction,
    AttemptOrder,
    AttemptReport,
    Caps,
    DiskTerms,
    EndpointTerms,
)
from orchestrator.endpoints import FILE_NAME
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.records import last_pack_check
from orchestrator.ledger.subnets import give_back, lease
from orchestrator.ledger.suspicion import suspect_elsewhere
from orchestrator.ledger.transitions import Claim
from orchestrator.packs import semantics
from orchestrator.packs.pack import Pack, PackTask
from orchestrator.planning.conditions import CapOverrides, DiskCondition, ScreeningConditions
from orchestrator.screenings.images import TaskImages
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.relaying import Metering
from orchestrator.sidecars import PodTerms

CLEAN_UP_MS = 300_000
"""Time beside the caps for start, collection and clean-up; beyond it the attempt is stopped from outside."""


def effective_caps(pack: Pack, task: PackTask, overrides: CapOverrides) -> Caps:
    """The pack's caps for a task with the screening's own overrides."""
    given = {name: value for name, value in overrides.model_dump().items() if value is not None}
    return replace(pack.caps(task), **given)


def effective_disk(pack: Pack, task: PackTask, disk: DiskCondition) -> DiskTerms:
    """The screening's disk, never larger than the task's own `storage_mb`."""
    declared = pack.disk_bytes(task)
    return DiskTerms(disk.mode, disk.bytes if declared is None else min(disk.bytes, declared), disk.files)


def limit_ms(caps: Caps) -> int:
    """All the time that one attempt may take."""
    return caps.agent_wall_ms + caps.grade_wall_ms + CLEAN_UP_MS


@dataclass(frozen=True)
class Bench:
    """What is common to all orders of one screening."""

    installation: Installation
    pack: Pack
    agent: RegisteredAgent
    conditions: ScreeningConditions
    images: Mapping[str, TaskImages]
    metering: Metering | None = None

    def caps(self, task: PackTask) -> Caps:
        """Caps of one try of `task` in this screening."""
        return effective_caps(self.pack, task, self.conditions.caps)

    def order(self, held: Claim) -> AttemptOrder:
        """The order for a claimed slot."""
        return self.build(
            self.pack.task(held.task_id),
            screening_id=held.screening_id,
            slot_id=held.slot_id,
            attempt_id=held.attempt_id,
            token=held.token,
            attempt=held.number,
            index=held.k,
            owner_id=held.owner_id,
            live_label=f"{held.slot_id}/{held.token}",
            suspect_elsewhere=suspect_elsewhere(self.installation.ledger, held),
        )

    def proven(self, task: PackTask, ledger: Ledger) -> bool:
        """Whether the admission gate saw the oracle pass in exactly these images."""
        images = self.images[task.id]
        found = last_pack_check(
            ledger,
            task_digest=checked_digest(task, images),
            agent_image=images.agent,
            grader_image=images.grader,
        )
        return found is not None and found.proven

    def build(
        self,
        task: PackTask,
        *,
        screening_id: str,
        slot_id: str,
        attempt_id: str,
        token: int,
        attempt: int,
        index: int,
        owner_id: str,
        live_label: str,
        gradings: int = 1,
        suspect_elsewhere: bool = False,
    ) -> AttemptOrder:
        """An order for any attempt of `task`; `live_label` is what the reaper asks the ledger about."""
        images, harbor, rule = self.images[task.id], task.task, self.pack.manifest.pass_rule
        revision = self.agent.revision
        return AttemptOrder(
            screening_id=screening_id,
            slot_id=slot_id,
            attempt_id=attempt_id,
            token=token,
            attempt=attempt,
            task_id=task.id,
            index=index,
            task_dir=harbor.directory,
            task_digest=task.record_digest,
            instruction=harbor.instruction,
            test_files=harbor.test_files,
            solution_files=harbor.solution_files,
            agent=plain_agent(revision, self.metering),
            bundle_dir=self.agent.bundle_dir,
            bundle_digest=revision.bundle_digest,
            agent_image=images.agent,
            grader_image=images.grader,
            grader_has_tests=semantics.tests_in_image(harbor),
            separate=semantics.verifier_mode(harbor) == "separate",
            agent_user=self.agent_user(task),
            workdir=semantics.workdir(harbor),
            caps=self.caps(task),
            grading=self.pack.grading(task),
            artifacts=tuple(item.as_data() for item in semantics.artifacts(harbor)),
            environment=semantics.agent_environment(harbor),
            solution_environment=semantics.oracle_environment(harbor),
            grader_environment=semantics.grader_environment(harbor),
            grader_user=semantics.user_of(harbor.config.verifier.user),
            reward_key=rule.key,
            reward_at_least=rule.at_least,
            reward_max=rule.max,
            grader_proven=self.proven(task, self.installation.ledger),
            runtime=self.conditions.runtime,
            evidence_root=self.installation.home.evidence,
            labels=self._labels(screening_id, owner_id, live_label),
            gradings=gradings,
            relay=self.metering.terms if self.metering else None,
            suspect_elsewhere=suspect_elsewhere,
            disk=effective_disk(self.pack, task, self.conditions.disk),
            **self._around(task, attempt_id, owner_id),
        )

    def _around(self, task: PackTask, attempt_id: str, owner_id: str) -> dict[str, Any]:
        """What there is beside the agent's container: services, and an agent at its own endpoint."""
        return {
            "endpoint": self._endpoint(),
            "pod": self._pod(task, attempt_id, owner_id),
            "mcp_servers": semantics.mcp_servers(task.task),
        }

    def _pod(self, task: PackTask, attempt_id: str, owner_id: str) -> PodTerms | None:
        """The services of the task with their images, on a subnet leased to this attempt."""
        images = self.images[task.id]
        if images.pod is None:
            return None
        beside = tuple(
            replace(sidecar, image=images.sidecars[sidecar.name])
            for sidecar, _ in semantics.sidecars(task.task)
        )
        subnet = lease(self.installation.ledger, attempt_id, owner_id)
        return PodTerms(str(subnet), images.pod, beside)

    def _endpoint(self) -> EndpointTerms | None:
        found = self.agent.revision.endpoint
        if found is None:
            return None
        accounts = self.installation.home.root / FILE_NAME
        return EndpointTerms(found.url, found.model, self.conditions.step_limit, accounts)

    def _labels(self, screening_id: str, owner_id: str, live_label: str) -> dict[str, str]:
        return {
            "assize.home": self.installation.label,
            "assize.screening": screening_id,
            "assize.owner": f"owner/{owner_id}",
            "assize.attempt": live_label,
        }

    def agent_user(self, task: PackTask) -> str | None:
        """The screening's own choice, else the task's, else the pack's, else the image's user."""
        return self.conditions.agent_user or self.pack.agent_user(task)


def checked_digest(task: PackTask, images: TaskImages) -> str:
    """What an admission check stands for: the task, and the very images of the services beside the agent."""
    if not images.sidecars:
        return task.record_digest
    return canonical.digest([task.record_digest, sorted(images.sidecars.items())])


def returning_subnets(ledger: Ledger, attempt: AttemptFunction) -> AttemptFunction:
    """The same attempts, each giving its subnet back when it is over, however it ended."""

    def run(order: AttemptOrder, control: AttemptControl) -> AttemptReport:
        try:
            return attempt(order, control)
        finally:
            if order.pod is not None:
                give_back(ledger, order.attempt_id)

    return run


def plain_agent(revision: AgentRevision, metering: Metering | None) -> dict[str, Any]:
    """The revision as plain data, with the wire format of model calls and the output maximum to set."""
    data = _plain(revision.model_dump(mode="json"))
    if metering is None:
        return data
    return {**data, **_plain({"wire": metering.wire, "output_tokens": metering.output_tokens})}


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value is not None}
