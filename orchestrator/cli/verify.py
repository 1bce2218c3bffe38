"""`assize verify`: check certificates offline, trusting nothing but the given trust root."""

from __future__ import annotations

from pathlib import Path

import click

from orchestrator.certificates import report, trust
from orchestrator.certificates.bundle import is_screening
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.certificates.verify import verify_try_bundle
from orchestrator.cli.output import emit, home_of, json_option, safe
from orchestrator.errors import UsageError
from orchestrator.evidence.store import EvidenceStore
from orchestrator.verification.errors import VerificationError

_HEAD = 4


@click.command(
    "verify",
    short_help="Verify certificates offline.",
    epilog="Next: assize score SCREENING, assize try TRY.",
)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--trust-root",
    "trust_root",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Published trust root. [default: that of the home]",
)
@click.option("--pin", metavar="SHA256", help="Expected hash of the trust root file.")
@click.option(
    "--evidence",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Evidence store to hash again. [default: that of the home]",
)
@click.option("--no-evidence", is_flag=True, help="Check signatures and accounting only.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    bundle: Path,
    trust_root: Path | None,
    pin: str | None,
    evidence: Path | None,
    no_evidence: bool,
    as_json: bool,
) -> None:
    """Verify BUNDLE, a screening.zip or one *.trybundle.json.

    Exit codes: 0 authentic, complete as asked, counts; 1 invalid; 2 unreadable; 3 authentic but does not
    count; 4 undecided.

    \b
    Examples:
      assize verify screening.zip
      assize verify fix-login.try1.attempt1.trybundle.json --trust-root trust-root.json --no-evidence
    """
    home = home_of(context)
    root_path = trust_root or home.trust_root
    if not root_path.is_file():
        raise UsageError(
            f"there is no trust root at {root_path}", hint="name the published one with --trust-root"
        )
    try:
        with bundle.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise UsageError(f"{bundle} cannot be read: {error.strerror}") from None
    folder = evidence or home.evidence
    if evidence is not None and not evidence.is_dir():
        raise UsageError(f"there is no evidence store at {evidence}")
    store = EvidenceStore(folder) if folder.is_dir() and not no_evidence else None
    try:
        root = trust.load(root_path, pin=pin)
    except VerificationError as error:
        raise UsageError(f"the trust root {root_path} is refused: {error.message}") from None
    if is_screening(head):
        screening = verify_screening_bundle(bundle, root, store=store)
        data, text, code = report.screening_data, report.screening_text, screening.exit_code
        shown = (data(screening, root), text(screening, root))
    else:
        one = verify_try_bundle(bundle, root, store=store)
        code = one.exit_code
        shown = (report.try_data(one, root), report.try_text(one, root))
    if as_json:
        emit(shown[0].pop("schema"), shown[0])
    else:
        click.echo(safe(shown[1]))
    context.exit(code)
