"""Evidence in S3-compatible storage behind the folders of hosts, against a real local server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.certificates.verify import check_evidence
from orchestrator.cli.doctor_home import evidence as examined
from orchestrator.evidence.archive import VARIABLE, open_store
from orchestrator.evidence.errors import EvidenceAlteredError, EvidenceError, EvidenceMissingError
from orchestrator.evidence.manifest import EvidenceManifest, ManifestBuilder, Role, read_withheld
from orchestrator.evidence.s3 import S3Archive
from orchestrator.evidence.store import EvidenceStore
from orchestrator.home import Home
from orchestrator.ids import new_id
from tests.assets.services.s3 import BUCKET, S3Server

URL = f"s3://{BUCKET}/house/one"


@pytest.fixture
def told(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What boto3 is told."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """One to be stopped."""
    server = S3Server()
    try:
        server.start()
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server
    finally:
        server.close()


def host(folder: Path, url: str = URL) -> EvidenceStore:
    return open_store(folder, {VARIABLE: url})


def captured(store: EvidenceStore, secret: bytes = b"hidden tests") -> str:
    """An attempt's evidence with a withheld file; its manifest digest."""
    builder = ManifestBuilder(store, attempt_id=new_id(), try_id=new_id())
    builder.add_bytes("agent/output.txt", Role.COMMAND_LOG, b"said\n" * 100)
    builder.withhold("tests/test.sh", Role.HIDDEN_TESTS, secret)
    return builder.seal()


def test_another_host_has_what_one_captured(tmp_path: Path, told: None) -> None:
    """Manifest, files, withheld files and their salts; a file that was fetched once is here then.

    Salts are asked for each time: only a manifest can tell whether they are right.
    """
    one, other = host(tmp_path / "one"), host(tmp_path / "other")
    digest = captured(one)
    manifest = EvidenceManifest.from_bytes(other.read(digest, 1 << 20))
    (plain,) = [file for file in manifest.files if file.sha256]
    assert other.read(str(plain.sha256), 1 << 20) == b"said\n" * 100
    salts = read_withheld(other, digest)
    assert salts == read_withheld(one, digest) and len(salts) == 1
    (hidden,) = salts.values()
    assert other.read(hidden.sha256, 100, withheld=True) == b"hidden tests"
    assert not other.side_file(digest).exists()
    assert other.path(digest).stat().st_mode == one.path(digest).stat().st_mode
    assert list((other.root / "tmp").iterdir()) == []
    alone = EvidenceStore(other.root)
    assert alone.verify(str(plain.sha256)).size == 500 and read_withheld(alone, digest) == {}


def test_hidden_tests_lie_apart_in_the_archive(tmp_path: Path, told: None, s3_server: S3Server) -> None:
    """The part under `sha256/` could be published as it stands, there as here."""
    captured(host(tmp_path, f"s3://{BUCKET}/apart"), b"only here")
    _, listed = s3_server.ask("GET", f"/{BUCKET}?list-type=2&prefix=apart/")
    keys = [part.partition(b"</Key>")[0].decode() for part in listed.split(b"<Key>")[1:]]
    public = [key for key in keys if key.startswith("apart/sha256/")]
    assert len(public) == 2 and len([key for key in keys if key.startswith("apart/withheld/")]) == 2
    for key in public:
        assert b"only here" not in s3_server.ask("GET", f"/{BUCKET}/{key}")[1]


def test_what_is_nowhere_is_missing(tmp_path: Path, told: None) -> None:
    """Both places are named; salts that nobody has are none."""
    store = host(tmp_path)
    with pytest.raises(EvidenceMissingError, match=rf"is not in the store {tmp_path} nor in {URL}"):
        store.verify("0" * 64)
    assert read_withheld(store, "0" * 64) == {}


def test_what_was_altered_in_the_archive_is_refused(tmp_path: Path, told: None, s3_server: S3Server) -> None:
    """It never comes to lie under the digest, so that it is refused again and again."""
    blob = EvidenceStore(tmp_path / "one").put_bytes(b"true")
    s3_server.ask("PUT", f"/{BUCKET}/house/one/sha256/{blob.sha256[:2]}/{blob.sha256[2:]}", b"fake")
    other = host(tmp_path / "other")
    for _ in range(2):
        with pytest.raises(EvidenceAlteredError, match="was altered in s3://"):
            other.read(blob.sha256, 100)
        assert not other.path(blob.sha256).exists()
    assert list((other.root / "tmp").iterdir()) == []


def test_an_archive_that_is_away_takes_nothing_and_says_so(tmp_path: Path, own_server: S3Server) -> None:
    """An attempt that cannot be archived is not sealed; what is here can be read without it."""
    store = host(tmp_path)
    digest = captured(store)
    own_server.stop()
    with pytest.raises(EvidenceError, match=r"the archive s3://.* failed \(head_object\)"):
        captured(store)
    with pytest.raises(EvidenceError, match=r"failed \(get_object\)"):
        store.verify("0" * 64)
    assert store.verify(digest).sha256 == digest


def test_without_a_bucket_nothing_is_kept(tmp_path: Path, told: None) -> None:
    """The server's own word is told."""
    with pytest.raises(EvidenceError, match="NoSuchBucket"):
        captured(host(tmp_path, "s3://there-is-no-such-bucket"))


def test_what_is_there_is_not_sent_again(tmp_path: Path, told: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Base images' files and instructions are the same in many attempts."""
    archive = S3Archive(f"s3://{BUCKET}/again")
    asked: list[str] = []
    real = S3Archive._call

    def counted(self: S3Archive, operation: str, name: str, **more: Any) -> Any:
        asked.append(operation)
        return real(self, operation, name, **more)

    monkeypatch.setattr(S3Archive, "_call", counted)
    file = tmp_path / "file"
    file.write_bytes(b"the same")
    archive.keep("name", file)
    archive.keep("name", file)
    assert asked == ["head_object", "put_object", "head_object"]


def test_what_another_put_there_is_replaced(tmp_path: Path, told: None, s3_server: S3Server) -> None:
    """Of the right size, under the right name, and not put there by a store: it would hide the true one."""
    store = host(tmp_path / "one")
    blob = store.put_bytes(b"true")
    s3_server.ask("PUT", f"/{BUCKET}/house/one/sha256/{blob.sha256[:2]}/{blob.sha256[2:]}", b"fake")
    store.share([store.path(blob.sha256)])
    assert host(tmp_path / "other").read(blob.sha256, 100) == b"true"


def test_a_host_that_cannot_write_says_so_of_itself(
    tmp_path: Path, told: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk here is not the archive's fault."""
    one, other = host(tmp_path / "one"), host(tmp_path / "other")
    digest = captured(one)
    other.root.mkdir()
    (other.root / "tmp").write_bytes(b"in the way")
    with pytest.raises(EvidenceError, match=f"evidence cannot be written to {other.root}"):
        other.verify(digest)


def test_who_cannot_look_has_found_nothing_wrong(tmp_path: Path, own_server: S3Server) -> None:
    """The evidence of a certificate is undecided while the archive is away, and it is asked for once."""
    store = host(tmp_path)
    own_server.stop()
    files = [{"path": f"file-{number}", "size": 1, "sha256": f"{number}" * 64} for number in range(3)]
    tally, found = check_evidence(files, store)
    assert (tally.listed, tally.checked, tally.missing) == (3, 0, 3)
    assert [one.code for one in found] == ["evidence-missing"]
    assert "failed (get_object)" in found[0].detail


def test_without_an_archive_looking_writes_nothing(tmp_path: Path) -> None:
    """A published store may be read where nobody may write."""
    store = open_store(tmp_path / "published", {})
    assert read_withheld(store, "0" * 64) == {}
    with pytest.raises(EvidenceMissingError):
        store.verify("0" * 64)
    assert not store.root.exists()


@pytest.mark.parametrize(
    "url",
    [
        "evidence",
        "s3:/bucket",
        "s3://",
        "s3://UPPER",
        "s3://bucket//x",
        "s3://bucket/a b",
        "https://bucket/x",
    ],
)
def test_names_that_are_no_archive(tmp_path: Path, url: str) -> None:
    """Refused when the store is opened, with what is expected."""
    with pytest.raises(EvidenceError, match="is no archive of evidence: s3://bucket or s3://bucket/prefix"):
        host(tmp_path, url)


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 is only needed where an archive is named."""
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(EvidenceError, match="needs the package boto3") as refused:
        host(tmp_path).verify("0" * 64)
    assert refused.value.hint == "install assize[s3]"
    assert open_store(tmp_path, {}).archive is None and open_store(tmp_path, {VARIABLE: ""}).archive is None


def test_doctor_tries_the_archive(
    tmp_path: Path, own_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives a file and takes it back; one that is away is a fault with its mend."""
    home = Home(tmp_path / "home").prepare()
    monkeypatch.setenv(VARIABLE, URL)
    found = examined(home)
    assert (found.health, found.detail) == (
        "ok",
        f"{home.evidence} can be written to, and {URL} behind it keeps and gives back",
    )
    assert examined(home).health == "ok"
    own_server.stop()
    found = examined(home)
    assert found.health != "ok" and "failed (head_object)" in found.detail
    assert VARIABLE in str(found.mend)
