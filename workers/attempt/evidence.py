"""Turns what the phases showed into evidence files and one sealed manifest."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from orchestrator import canonical
from orchestrator.attempts import AttemptOrder
from orchestrator.evidence import claims, metering, observed
from orchestrator.evidence.manifest import ManifestBuilder, Role
from orchestrator.evidence.transcript import read
from orchestrator.faults import Decision
from orchestrator.observations import Observations
from workers.adapters.shell.ending import ShellEnd
from workers.attempt.phases import AgentPhase
from workers.attempt.relayed import Relayed
from workers.capture.carry import Carry
from workers.capture.diff import unified
from workers.capture.members import shown
from workers.grading.grade import Graded
from workers.relay.trajectory import atif
from workers.relay.trajectory.tool_calls import tool_calls
from workers.sandbox.execute import ExecResult
from workers.sandbox.sidecars import Sidecars

MAX_GRADER_FILES: Final = 50
_KIND: Final = {0: "changed", 1: "added", 2: "deleted"}


def _command(result: ExecResult | None, argv: tuple[str, ...] | None, user: str) -> dict[str, Any]:
    if result is None:
        return {"argv": list(argv or ()), "ran": False}
    return {
        "argv": list(argv or ()),
        "ran": not result.never_began,
        "user": user,
        "end": result.end.value,
        "exitCode": result.exit_code,
        "wallMs": result.wall_ms,
        "outputBytes": result.seen_bytes,
        "keptBytes": len(result.stdout) + len(result.stderr),
    }


def _tests_tar(folder: Path, files: tuple[str, ...]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.TarFile(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for relative in sorted(files):
            data = (folder / relative).read_bytes()
            info = tarfile.TarInfo(relative)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _add_named(
    builder: ManifestBuilder, role: Role, folder: str, unnamed: str, files: Mapping[str, bytes]
) -> None:
    """Files by relative names of any choice; one whose name is unfit for a record gets a number."""
    for number, (name, data) in enumerate(files.items()):
        fit = name.isprintable() and len(name) <= 300 and not {"", ".", ".."} & set(name.split("/"))
        # Apart from the named ones, so that no file can be called like the number of another.
        builder.add_bytes(f"{folder}/{name}" if fit else f"{unnamed}/{number}", role, data)


def add_agent(builder: ManifestBuilder, phase: AgentPhase) -> None:
    """Command log and what the agent printed, as captured."""
    user = f"{phase.owner.uid}:{phase.owner.gid}"
    log = canonical.encode(_command(phase.output, phase.argv, user))
    builder.add_bytes("agent/command.json", Role.COMMAND_LOG, log)
    if phase.output is not None:
        builder.add_bytes("agent/stdout.txt", Role.COMMAND_LOG, bytes(phase.output.stdout))
        builder.add_bytes("agent/stderr.txt", Role.COMMAND_LOG, bytes(phase.output.stderr))
    if phase.acp is not None:
        builder.add_bytes("agent/acp.json", Role.COMMAND_LOG, canonical.encode(phase.acp.as_data()))


def add_carry(builder: ManifestBuilder, carry: Carry, originals: Mapping[str, bytes]) -> None:
    """The carried archive, the list of all changes, and a readable diff."""
    builder.add_file("workspace/carried.tar", Role.ARTIFACTS, carry.tar)
    changes = {
        "changes": [[_KIND.get(kind, str(kind)), shown(path)] for kind, path in carry.changes[:10_000]],
        "changesTotal": len(carry.changes),
        "deleted": [shown(path) for path in carry.deleted[:10_000]],
        "dropped": [[item.path, item.why.value] for item in carry.dropped[:1_000]],
        "missing": list(carry.missing),
    }
    builder.add_bytes("workspace/changes.json", Role.CHANGES, canonical.encode(changes))
    diff = unified(originals, carry.files, carry.deleted, carry.digests)
    builder.add_bytes("workspace/diff.patch", Role.DIFF, diff)


def add_out(builder: ManifestBuilder, files: Mapping[str, bytes]) -> None:
    """What the agent left in its output folder: evidence only, the verifier never gets it."""
    _add_named(builder, Role.ARTIFACTS, "agent/out", "agent/out-unnamed", files)


def add_transcripts(builder: ManifestBuilder, home: Mapping[str, bytes], out: Mapping[str, bytes]) -> None:
    """What the agent wrote about itself, below HOME and its output folder: nothing rests on it."""
    role = Role.AGENT_TRANSCRIPT
    _add_named(builder, role, "agent/transcripts/home", "agent/transcripts/home-unnamed", home)
    _add_named(builder, role, "agent/transcripts/out", "agent/transcripts/out-unnamed", out)


def add_claims(builder: ManifestBuilder, claimed: claims.Figures, relayed: Relayed) -> None:
    """The agent's own figures beside the metered ones, where there are both."""
    raw = relayed.transcript()
    if not raw or claimed == claims.Figures():
        return
    chain = read(raw[: raw.rfind(b"\n") + 1])
    record = claims.metered(metering.ledger_lines(chain), len(tool_calls(chain.records)))
    builder.add_bytes(claims.FILE_NAME, Role.AGENT_TRANSCRIPT, claims.encode(claimed, record))


def add_grade(builder: ManifestBuilder, order: AttemptOrder, graded: Graded) -> None:
    """What the tests printed and wrote; the tests themselves are listed as withheld."""
    if graded.output is not None:
        builder.add_bytes("grader/stdout.txt", Role.GRADER_OUTPUT, bytes(graded.output.stdout))
        builder.add_bytes("grader/stderr.txt", Role.GRADER_OUTPUT, bytes(graded.output.stderr))
    files = dict(sorted(graded.files.items())[:MAX_GRADER_FILES])
    _add_named(builder, Role.GRADER_OUTPUT, "grader/verifier", "grader/unnamed", files)
    tests = _tests_tar(order.task_dir / "tests", order.test_files)
    builder.withhold("grader/tests.tar", Role.HIDDEN_TESTS, tests)


def add_relayed(builder: ManifestBuilder, relayed: Relayed, order: AttemptOrder) -> None:
    """The transcript, the ledger that follows from it, and what was said and done in readable form.

    A transcript that breaks off (the relay was lost) is kept as far as it goes; its torn end is not.
    """
    raw = relayed.transcript()
    if not raw:
        return
    raw = raw[: raw.rfind(b"\n") + 1]
    chain = read(raw)
    builder.add_bytes(metering.TRANSCRIPT_FILE, Role.TRANSCRIPT, raw)
    builder.add_bytes(metering.FILE_NAME, Role.METERING_LEDGER, metering.encode(metering.ledger_lines(chain)))
    calls = b"".join(canonical.encode(call) + b"\n" for call in tool_calls(chain.records))
    builder.add_bytes("relay/tool-calls.jsonl", Role.TOOL_CALLS, calls)
    name, version = str(order.agent["name"]), str(order.agent["version"])
    document = atif.trajectory(
        chain.records, session_id=order.attempt_id, agent_name=name, agent_version=version
    )
    builder.add_bytes("relay/trajectory.json", Role.TRAJECTORY, atif.encode(document))


def add_shell(builder: ManifestBuilder, end: ShellEnd) -> None:
    """What the worker ran for a bare model, turn by turn."""
    log = {"why": end.why.value, "turns": end.turns, "commands": end.commands, "log": list(end.log)}
    log["detail"] = end.detail
    builder.add_bytes("agent/shell.json", Role.COMMAND_LOG, canonical.encode(log))


def add_services(builder: ManifestBuilder, sidecars: Sidecars) -> None:
    """What the task's own services printed, as far as the engine kept it."""
    for one in sidecars.running:
        builder.add_bytes(f"services/{one.sidecar.name}.txt", Role.COMMAND_LOG, one.log)


def add_report(
    builder: ManifestBuilder, report: Mapping[str, Any], seen: Observations, decision: Decision
) -> None:
    """The sandbox report, and the whole observation vector with the rule that decided."""
    builder.add_bytes("sandbox-report.json", Role.SANDBOX_REPORT, canonical.encode(report))
    builder.add_bytes(observed.FILE_NAME, Role.OBSERVATIONS, observed.encode(seen, decision))
