"""A small lab with seeded keys and fixed clocks: everything it makes has the same bytes every time."""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.certificates import bundle, dsse, founding, issue, notice_statement, statements, trust
from orchestrator.certificates.keys import SigningKey
from orchestrator.certificates.signer import FileSigner, Signed
from orchestrator.evidence import observed
from orchestrator.evidence.manifest import EvidenceFile, EvidenceManifest, Role, WithheldFile, seal
from orchestrator.evidence.store import EvidenceStore
from orchestrator.faults import Decision, decide
from orchestrator.observations import Clock, Observations

ISSUER = "assize.example/test-lab"
ORIGIN = "assize.example/test-lab/log/2026"
KEY_FIELDS = ("usages", "revoked", "not_before", "not_after", "log", "from_index", "until_index")
OPENED_MS = 1_790_000_000_000
TASKS = ("alpha", "beta", "gamma")

PASS = Observations(agent_started=True, reward="1", reward_passes=True, grader_proven=True)
WRONG = Observations(agent_started=True, reward="0", reward_passes=False, grader_proven=True)
TIMEOUT = Observations(agent_started=True, agent_clock=Clock.WALL, agent_clock_value=1000)
LOST = Observations(worker_lost=True)
NOT_STARTABLE = Observations(agent_not_startable=True)


@dataclass(frozen=True)
class Ended:
    """An attempt's end, as far as it is certified."""

    decision: Decision
    manifest_digest: str
    reward: str | None
    wall_ms: int
    handed_off_unix_ms: int
    finished_unix_ms: int
    runtime: str
    checks_passed: int | None = None
    checks_total: int | None = None


def key_event(
    world: World, name: str = "cert", event: notice_statement.KeyEvent = "rotated", **more: Any
) -> bytes:
    """A notice about one of the seeded keys."""
    public = key(name)
    told = notice_statement.NoticedKey(keyid=public.keyid, event=event)
    return world.notice(notice_statement.key_digest(public.public), "key-event", key=told, **more)


def hex_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def ulid(text: str) -> str:
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    number = int(hex_of(text), 16) >> 131
    return "0" + "".join(alphabet[(number >> shift) & 31] for shift in range(120, -5, -5))


def key(name: str) -> SigningKey:
    return SigningKey.from_seed(hashlib.sha256(b"assize test key " + name.encode()).digest())


def sha(text: str) -> statements.Sha256:
    return statements.Sha256(sha256=hex_of(text))


def resign(data: Any, *keys: SigningKey, payload_type: str = dsse.STATEMENT_TYPE) -> bytes:
    """An envelope over any payload (data or raw bytes), by any keys: what an attacker or a bad lab can do."""
    payload = data if isinstance(data, bytes) else json_bytes(data)
    signed = dsse.pae(payload_type, payload)
    return dsse.encode(payload, payload_type, [(k.keyid, k.sign(signed)) for k in keys or (key("cert"),)])


def json_bytes(data: Any) -> bytes:
    """Canonical spelling without the profile's checks, so that bad documents can be spelled too."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def payload_of(envelope: bytes) -> dict[str, Any]:
    limit = 8 << 20
    out: dict[str, Any] = json.loads(dsse.decode(envelope, dsse.STATEMENT_TYPE, limit).payload)
    return out


def digest_of(envelope: bytes) -> str:
    return dsse.statement_digest(dsse.decode(envelope, dsse.STATEMENT_TYPE, 8 << 20).signed_bytes())


class World:
    """One lab: store, keys, trust root, and screenings made through the real signer."""

    def __init__(self, root: Path) -> None:
        self.store = EvidenceStore(root)
        self.trust_bytes = trust_root()
        self.trust = trust.parse(self.trust_bytes)
        self.signer = FileSigner(key("cert"), self.store, self.trust)

    def evidence(
        self,
        try_id: str,
        attempt_id: str,
        seen: Observations,
        *,
        extra: dict[str, tuple[Role, bytes]] | None = None,
    ) -> str:
        """Six small files, one of them withheld under a fixed salt."""
        files: dict[str, tuple[Role, bytes]] = {
            "agent/stdout.txt": (Role.COMMAND_LOG, b"output of " + attempt_id.encode()),
            "grader/output.txt": (Role.GRADER_OUTPUT, b"grader says " + repr(seen.reward).encode()),
            observed.FILE_NAME: (Role.OBSERVATIONS, observed.encode(seen, decide(seen))),
            "sandbox-report.json": (Role.SANDBOX_REPORT, b"{}"),
            "workspace/diff.patch": (Role.DIFF, b"--- a\n+++ b\n"),
            **(extra or {}),
        }
        listed = []
        for path, (role, data) in files.items():
            blob = self.store.put_bytes(data)
            listed.append(EvidenceFile(path=path, role=role, size=blob.size, sha256=blob.sha256))
        hidden = self.store.put_bytes(b"hidden tests", withheld=True)
        salt = hashlib.sha256(b"salt").digest()
        salted = hashlib.sha256(salt + b"hidden tests").hexdigest()
        path = "grader/tests.tar"
        listed.append(EvidenceFile(path=path, role=Role.HIDDEN_TESTS, size=hidden.size, salted_sha256=salted))
        manifest = EvidenceManifest(
            attempt_id=attempt_id, try_id=try_id, files=tuple(sorted(listed, key=lambda file: file.path))
        )
        return seal(manifest, self.store, {path: WithheldFile(salt=salt.hex(), sha256=hidden.sha256)})

    def notice(self, subject: str, kind: notice_statement.Kind, reason: str = "told", **more: Any) -> bytes:
        """A notice about a certificate, an opening or a key, through the signer."""
        more.setdefault("issued_unix_ms", OPENED_MS + 2 * 86_400_000)
        statement = notice_statement.notice(
            issuer=ISSUER, subject=subject, kind=kind, reason=reason, about_unix_ms=OPENED_MS, **more
        )
        return self.signer.sign(statement).envelope

    def screening(self, name: str = "one", **changes: Any) -> Screening:
        """A fresh screening, opened."""
        return Screening(self, name, **changes)


def _plan(tasks: tuple[str, ...], tries: int, left_out: frozenset[str]) -> list[statements.PlannedTask]:
    caps = statements.Caps(
        agent_wall_ms=600_000,
        grade_wall_ms=60_000,
        memory_bytes=1 << 30,
        cpus_milli=1000,
        pids=256,
        output_bytes=1 << 20,
        artifact_bytes=1 << 24,
    )
    return [
        statements.PlannedTask(
            task_id=task,
            digest=sha(task),
            tries=0 if task in left_out else tries,
            answer_key_withheld=False,
            caps=caps,
        )
        for task in tasks
    ]


class Screening:
    """An opened screening that collects certificates."""

    def noticed(self, place: int, kind: notice_statement.Kind = "supersession", **more: Any) -> bytes:
        """A notice about the certificate at `place` of those collected."""
        signed, predicate = self.certificates[place]
        slot = predicate.slot
        attempt = notice_statement.NoticedTry(
            task_id=predicate.task.id, index=slot.index, attempt=slot.attempt
        )
        return self.world.notice(signed.digest, kind, screening=self.named(), slot=attempt, **more)

    def noticed_whole(self, kind: notice_statement.Kind = "contamination", **more: Any) -> bytes:
        """A notice about the whole screening."""
        return self.world.notice(self.opening.digest, kind, screening=self.named(), **more)

    def named(self) -> notice_statement.NoticedScreening:
        """How notices name this screening."""
        opening = statements.Sha256(sha256=self.opening.digest)
        return notice_statement.NoticedScreening(id=ulid(self.name), opening_digest=opening)

    def __init__(
        self,
        world: World,
        name: str,
        *,
        tasks: tuple[str, ...] = TASKS,
        tries: int = 3,
        version: str = "2026.9",
        agent: str = "acme/helper",
        pack: statements.OpenedPack | None = None,
        left_out: frozenset[str] = frozenset(),
        label: statements.Label = "independently-evaluated",
    ) -> None:
        self.world = world
        self.name = name
        self.certificates: list[tuple[Signed, statements.TryPredicate]] = []
        statement = issue.opening(
            statement_id=ulid(name + "opening"),
            issuer=ISSUER,
            screening=statements.Parties(
                id=ulid(name),
                requested_by="publisher:acme",
                funded_by="publisher:acme",
                operated_by="lab:test",
            ),
            pack=pack
            or statements.OpenedPack(
                id="coding-core", version=version, digest=sha("pack" + version), declared_tries=3
            ),
            plan=_plan(tasks, tries, left_out),
            agent=statements.Agent(
                id=agent,
                version="3.2.1",
                digest=sha("agent" if agent == "acme/helper" else agent),
                connection="none",
                models=(),
            ),
            judge="programmatic",
            grader=statements.Grader(
                id="harbor-reward", digest=sha("grader"), reward_key="reward", pass_at_least="1"
            ),
            simulator=None,
            conditions=statements.Conditions(
                network_policy=statements.NetworkPolicy(id="none", digest=sha("none")),
                step_limit=None,
                cost_cap_nusd=0,
                screening_cap_nusd=None,
                permitted_tools=None,
                hardware_class="c1m1",
                runtime="runc",
                repeats=3,
            ),
            opened_unix_ms=OPENED_MS,
            provenance_label=label,
        )
        self.opening = world.signer.sign(statement)
        assert isinstance(statement.predicate, statements.OpeningPredicate)
        self.opened = issue.OpenedScreening(statement.predicate, self.opening.digest)

    def run(
        self,
        task: str,
        index: int,
        seen: Observations,
        *,
        attempt: int = 1,
        replaces: str | None = None,
        level: statements.Level = "verified",
        usage: statements.Usage | None = None,
        extra: dict[str, tuple[Role, bytes]] | None = None,
    ) -> Signed:
        """Certify one attempt through the signer."""
        signed, predicate = self.certify(
            task, index, seen, attempt=attempt, replaces=replaces, level=level, usage=usage, extra=extra
        )
        self.certificates.append((signed, predicate))
        return signed

    def attempt_id(self, task: str, index: int, attempt: int = 1) -> str:
        """The attempt's id, which its evidence names."""
        return ulid(f"{self.name} {task} {index} {attempt}")

    def certify(
        self,
        task: str,
        index: int,
        seen: Observations,
        *,
        attempt: int,
        replaces: str | None,
        level: statements.Level,
        usage: statements.Usage | None,
        extra: dict[str, tuple[Role, bytes]] | None,
    ) -> tuple[Signed, statements.TryPredicate]:
        tag = f"{self.name} {task} {index}"
        try_id, attempt_id = ulid(tag), self.attempt_id(task, index, attempt)
        started = OPENED_MS + 60_000 * (TASKS.index(task) * 10 + index if task in TASKS else 1)
        started += 3_600_000 * (attempt - 1)
        report = Ended(
            decision=decide(seen),
            manifest_digest=self.world.evidence(try_id, attempt_id, seen, extra=extra),
            reward=seen.reward,
            wall_ms=12_345,
            handed_off_unix_ms=started,
            finished_unix_ms=started + 12_345,
            runtime="runc",
        )
        facts = issue.TryFacts(
            certificate_id=ulid(tag + f"certificate {attempt}"),
            try_id=try_id,
            attempt_id=attempt_id,
            task_id=task,
            index=index,
            attempt=attempt,
            replaces=replaces,
            level=level,
            grading_place="fresh",
            images=(("agent", hex_of("image")), ("grader", hex_of("image"))),
            runner_version="0.1.0",
            runner_digest=hex_of("runner"),
        )
        statement = issue.try_certificate(
            self.opened,
            facts,
            report,
            usage or statements.Usage.none_possible(),
            issued_unix_ms=started + 13_000,
        )
        assert isinstance(statement.predicate, statements.TryPredicate)
        return self.world.signer.sign(statement), statement.predicate

    def certify_again(self, task: str, index: int, seen: Observations) -> Signed:
        """Ask for the signature of an earlier attempt once more, without storing its evidence again."""
        slot = (task, index, 1)
        place = [(p.task.id, p.slot.index, p.slot.attempt) for _, p in self.certificates].index(slot)
        signed, predicate = self.certificates[place]
        subject = payload_of(signed.envelope)["subject"][0]["digest"]["sha256"]
        return self.world.signer.sign(statements.Statement(subject, predicate))

    def usual(self) -> Screening:
        """Nine planned tries: passes, failures of three kinds, one platform fault with its re-run."""
        for task in TASKS:
            for index in (1, 2, 3):
                seen = {("alpha", 2): WRONG, ("beta", 1): TIMEOUT, ("gamma", 3): WRONG}.get(
                    (task, index), PASS
                )
                if (task, index) == ("beta", 2):
                    lost = self.run(task, index, LOST)
                    self.run(task, index, PASS, attempt=2, replaces=lost.digest)
                else:
                    self.run(task, index, seen)
        return self

    def summary(self, left_out: frozenset[str] = frozenset()) -> Signed:
        """The closing statement over the certificates whose digest is not left out."""
        statement = issue.summary(
            self.opened,
            [issue.listed(p, s.digest) for s, p in self.certificates if s.digest not in left_out],
            statement_id=ulid(self.name + "summary"),
            closed_unix_ms=OPENED_MS + 86_400_000,
        )
        return self.world.signer.sign(statement)

    def tries(self) -> list[bytes]:
        """The try bundles in the order of the summary."""
        return [bundle.encode_try(s.envelope, s.manifest or b"") for s, _ in self.certificates]

    def pack(self) -> bytes:
        """The screening bundle."""
        return bundle.encode_screening(self.opening.envelope, self.tries(), self.summary().envelope)


def trust_root(*, logged: bool = False, **changes: Any) -> bytes:
    """The lab's trust root; `changes` replace arguments of `founding.build` or of the key entry.

    `logged` gives it a log, so that every certificate has to be in there.
    """
    entry: dict[str, Any] = {"not_before": "2026-01-01T00:00:00Z", "not_after": "2028-01-01T00:00:00Z"}
    if logged:
        entry["log"] = ORIGIN
        changes.setdefault("logs", [founding.log_entry(ORIGIN, key("log").public)])
    entry |= {name: changes.pop(name) for name in KEY_FIELDS if name in changes}
    keys = changes.pop("keys", [founding.key_entry(key("cert").public, **entry)])
    values: dict[str, Any] = {
        "issuer": ISSUER,
        "issued_at": "2026-01-01T00:00:00Z",
        "expires_at": "2028-01-01T00:00:00Z",
        **changes,
    }
    return founding.build([key("root")], keys, **values)


def trust_root_with(edit: Any, *, logged: bool = False) -> bytes:
    """A trust root whose document was edited before the root key signed it."""
    limit = trust.LIMIT_BYTES
    document = json.loads(dsse.decode(trust_root(logged=logged), dsse.TRUST_ROOT_TYPE, limit).payload)
    edit(document)
    return resign(document, key("root"), payload_type=dsse.TRUST_ROOT_TYPE)


def changed(envelope: bytes, *path_and_value: Any) -> dict[str, Any]:
    """The statement of an envelope with one value replaced: `changed(e, "predicate", "judge", "x")`."""
    *path, last, value = path_and_value
    data = copy.deepcopy(payload_of(envelope))
    place: Any = data
    for name in path:
        place = place[name]
    place[last] = value
    return data
