"""What an agent wrote about itself, and what it claims: collected after its end, added to the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.agents.launching import LaunchTemplate
from orchestrator.attempts import AttemptOrder
from orchestrator.evidence.claims import Figures
from orchestrator.evidence.manifest import ManifestBuilder
from workers.adapters.claims import acp_claims, claims
from workers.adapters.launch import HOME
from workers.adapters.packed import template_of
from workers.attempt import evidence
from workers.attempt.phases import AgentPhase
from workers.capture.carry import Carry
from workers.capture.source import Source
from workers.capture.transcripts import matching, transcripts_in


@dataclass(frozen=True)
class Exhibits:
    """Transcripts below HOME and the output folder by relative name; the form of claims is the profile's."""

    template: LaunchTemplate | None = None
    home: Mapping[str, bytes] = field(default_factory=dict)
    out: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def collect(cls, order: AttemptOrder, source: Source, carry: Carry, out: Mapping[str, bytes]) -> Exhibits:
        """Read what the agent's profile says it leaves; an agent without a profile leaves nothing."""
        if not order.agent.get("launch"):
            return cls()
        template = template_of(order.agent)
        kept = {name: out[name] for name in matching(template.transcripts, out)}
        return cls(template, transcripts_in(source, HOME, template.transcripts, carry.changes), kept)

    def add(self, builder: ManifestBuilder, phase: AgentPhase) -> None:
        """Files of the evidence, and the claims beside the record where both are there."""
        evidence.add_transcripts(builder, self.home, self.out)
        if phase.relayed is not None:
            evidence.add_claims(builder, self._claimed(phase), phase.relayed)

    def _claimed(self, phase: AgentPhase) -> Figures:
        """By the protocol where the agent was talked to, else in the form that its profile names."""
        if phase.acp is not None:
            return acp_claims(phase.acp.claims)
        form = None if self.template is None else self.template.claims
        if form is None or phase.output is None:
            return Figures()
        return claims(form, bytes(phase.output.stdout), {**self.home, **self.out})
