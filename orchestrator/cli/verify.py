"""`assize verify`: check certificates and logs offline, trusting nothing but the given trust root."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from orchestrator.certificates import report, trust
from orchestrator.certificates.bundle import is_screening
from orchestrator.certificates.logged import LogChecks
from orchestrator.certificates.published import PublishedNotices
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.certificates.trust import TrustRoot
from orchestrator.certificates.verdict import Verdict
from orchestrator.certificates.verify import verify_try_bundle
from orchestrator.cli import exits, failures
from orchestrator.cli.output import emit, home_of, json_option, safe
from orchestrator.errors import AssizeError, UsageError
from orchestrator.evidence.archive import open_store
from orchestrator.evidence.store import EvidenceStore
from orchestrator.home import Home
from orchestrator.log.checkpoint import Checkpoint
from orchestrator.log.memory import CheckpointMemory
from orchestrator.log.tiles import Tiles
from orchestrator.verification.errors import VerificationError

_HEAD = 4


@click.command(
    "verify",
    short_help="Verify certificates offline.",
    epilog="Next: assize score SCREENING, assize try TRY.",
)
@click.argument("bundle", type=click.Path(path_type=Path), required=False)
@click.option(
    "--trust-root",
    "trust_roots",
    type=click.Path(path_type=Path),
    metavar="FILE",
    multiple=True,
    help="Published trust root; again for each version that follows it. [default: that of the home]",
)
@click.option("--pin", metavar="SHA256", help="Expected hash of the (first) trust root file.")
@click.option(
    "--evidence",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Evidence store to hash again. [default: that of the home]",
)
@click.option("--no-evidence", is_flag=True, help="Check signatures, log and accounting only.")
@click.option(
    "--remember",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep checkpoints here, and refuse a log that does not go on from them.",
)
@click.option(
    "--log",
    "log_folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Published logs that prove this, and say what was noticed later. [default: that of the home]",
)
@click.option(
    "--audit",
    "audited",
    type=click.Path(path_type=Path),
    metavar="LOGDIR",
    help="Read a whole published log instead of a bundle.",
)
@json_option
@click.pass_context
def command(
    context: click.Context,
    bundle: Path | None,
    trust_roots: tuple[Path, ...],
    pin: str | None,
    evidence: Path | None,
    no_evidence: bool,
    remember: Path | None,
    log_folder: Path | None,
    audited: Path | None,
    as_json: bool,
) -> None:
    """Verify BUNDLE, a screening.zip or one *.trybundle.json, or the log in LOGDIR.

    Exit codes: 0 authentic, complete as asked, counts; 1 invalid; 2 unreadable; 3 authentic but does not
    count; 4 undecided.

    \b
    Examples:
      assize verify screening.zip --trust-root trust-root.json --no-evidence
      assize verify --audit log/assize.example/log/2026 --remember checkpoints
    """
    if (bundle is None) == (audited is None):
        raise UsageError("name one bundle, or one log with --audit")
    try:
        home = home_of(context)
        root = _trust_root(trust_roots or _own(home), pin)
        memory = None if remember is None else CheckpointMemory(remember)
        if log_folder is not None and not log_folder.is_dir():
            raise UsageError(f"there is no log at {log_folder}", hint="name the folder that holds the logs")
        code, data, text = _asked(
            bundle, audited, root, memory, log_folder or home.log, _store(home, evidence, no_evidence)
        )
        if as_json:
            emit(data.pop("schema"), data)
        else:
            click.echo(safe(text))
    except (AssizeError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - a defect must not read as an answer: exit 1, never 0
        code = exits.REFUSED
        failures.report(error, debug=bool((context.find_root().obj or {}).get("debug")))
    context.exit(code)


def _asked(
    bundle: Path | None,
    audited: Path | None,
    root: TrustRoot,
    memory: CheckpointMemory | None,
    folder: Path,
    store: EvidenceStore | None,
) -> tuple[int, dict[str, Any], str]:
    """Exit code, data and text of what was asked; published logs lie in `folder`."""
    if audited is not None:
        return _audit(audited, root, memory)
    logs = LogChecks(root, memory, _Published(folder).consistency)
    return _verify(bundle or Path(), store, logs, PublishedNotices(folder))


class _Published:
    """Published logs, each in the folder of its origin below `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def consistency(self, smaller: Checkpoint, larger: Checkpoint) -> Sequence[bytes] | None:
        """The proof between two sizes as the files give it, None where they do not."""
        try:
            return Tiles(self._root / larger.origin, larger.size).consistency_proof(smaller.size)
        except (VerificationError, ValueError):
            return None


def _own(home: Home) -> Sequence[Path]:
    """Every version of the home, read only; importing what keeps them would slow the verifier down."""
    first, version, paths = home.trust_root, 2, [home.trust_root]
    while (path := first.with_name(f"{first.stem}.{version}{first.suffix}")).exists():
        paths.append(path)
        version += 1
    return paths


def _trust_root(paths: Sequence[Path], pin: str | None) -> TrustRoot:
    first, *later = paths
    for path in paths:
        if not path.is_file():
            raise UsageError(
                f"there is no trust root at {path}", hint="name the published one with --trust-root"
            )
    try:
        return trust.load(first, *later, pin=pin)
    except VerificationError as error:
        raise UsageError(f"the trust root {paths[-1]} is refused: {error.message}") from None


def _store(home: Home, evidence: Path | None, no_evidence: bool) -> EvidenceStore | None:
    folder = evidence or home.evidence
    if evidence is not None and not evidence.is_dir():
        raise UsageError(f"there is no evidence store at {evidence}")
    if no_evidence:
        return None
    # A stranger's folder is all there is; a home may have an archive behind it.
    store = open_store(folder) if evidence is None else EvidenceStore(folder)
    return store if folder.is_dir() or store.archive is not None else None


def _audit(folder: Path, root: TrustRoot, memory: CheckpointMemory | None) -> tuple[int, dict[str, Any], str]:
    # Not needed for a bundle, which should be answered at once.
    from orchestrator.certificates.audit import audit_log
    from orchestrator.certificates.audit_report import audit_data, audit_text

    if not folder.is_dir():
        raise UsageError(f"there is no log at {folder}", hint="name the folder that holds `checkpoint`")
    found = audit_log(folder, root, memory)
    return found.exit_code, audit_data(found, root), audit_text(found, root)


def _verify(
    path: Path, store: EvidenceStore | None, logs: LogChecks, published: PublishedNotices
) -> tuple[int, dict[str, Any], str]:
    """Exit code, data and text; the checkpoint is remembered when the bundle is authentic.

    Told is the trust root that the bundle was verified with: it may carry later versions.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if is_screening(head):
        screening = verify_screening_bundle(path, logs.trust, store=store, logs=logs, published=published)
        data, text, code = (
            report.screening_data(screening, logs.trust),
            report.screening_text(screening, logs.trust),
            screening.exit_code,
        )
        authentic = screening.authentic
    else:
        one = verify_try_bundle(path, logs.trust, store=store, logs=logs, published=published)
        data, text, code = report.try_data(one, logs.trust), report.try_text(one, logs.trust), one.exit_code
        authentic = one.authentic
    if authentic is Verdict.YES:
        try:
            logs.remember()
        except OSError as error:
            raise UsageError(f"the checkpoint cannot be remembered: {error}") from None
    return code, data, text
