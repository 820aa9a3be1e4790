"""Fetching a data set from a real server in this process: complete files are kept, everything else is not."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from regard import files
from regard.corpora import archives, download, fetch
from regard.corpora.datasets import DataFile, DatasetSpec, Mirror
from regard.errors import UserError

TEXTS = {
    "one.de": "".join(f"Zeile {number} für Übung\n" for number in range(9_000)).encode(),
    "one.en": "".join(f"Line {number} of an exercise\n" for number in range(9_000)).encode(),
    "two.de": b"kurz\n",
}
OTHER_NAMES = {"two.de": ("zwei.de",)}
SMALL = DatasetSpec(
    "small",
    "Some lines",
    "none",
    tuple(
        DataFile(name, text.count(b"\n"), len(text), sha256(text).hexdigest(), OTHER_NAMES.get(name, ()))
        for name, text in TEXTS.items()
    ),
    (),
)
ONLY_TWO = replace(SMALL, files=SMALL.files[2:])
ONLY_ONE = replace(SMALL, files=SMALL.files[:1])


@dataclass
class RecordingObserver:
    present_names: list[str] = field(default_factory=list)
    kept_from: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    steps: list[tuple[str, int, int | None]] = field(default_factory=list)
    interrupt_after: int | None = None

    def present(self, file: DataFile) -> None:
        self.present_names.append(file.name)

    def received(self, address: str, done: int, total: int | None) -> None:
        self.steps.append((address, done, total))
        if self.interrupt_after is not None and done > self.interrupt_after:
            raise KeyboardInterrupt

    def kept(self, file: DataFile, origin: str) -> None:
        self.kept_from[file.name] = origin

    def failed(self, reason: str) -> None:
        self.failures.append(reason)


Answer = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """A server of files by path; `before` holds the first responses, one per request of a path."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: dict[str, bytes] = {}
        self.before: dict[str, list[Answer]] = {}
        self.requests: list[tuple[str, str | None]] = []

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path.lstrip("/")
        self.requests.append((path, request.headers["Range"]))
        if self.before.get(path):
            self.before[path].pop(0)(request)
        elif path in self.files:
            send(request, self.files[path])
        else:
            request.send_error(404)

    def source(self, *names: str) -> Mirror:
        return Mirror(tuple(f"{self.address}/{name}" for name in names))


def send(request: BaseHTTPRequestHandler, content: bytes, stop_after: int | None = None, ranges: bool = True) -> None:
    """Send a file or the requested range; or announce all of it and stop in the middle."""
    begin = int((request.headers["Range"] or "bytes=0-")[len("bytes=") : -1]) if ranges else 0
    request.send_response(206 if begin else 200)
    if begin:
        request.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
    request.send_header("Content-Length", str(len(content) - begin))
    request.end_headers()
    request.wfile.write(content[begin : begin + stop_after if stop_after else None])


def half(content: bytes) -> Answer:
    return lambda request: send(request, content, stop_after=len(content) // 2)


def error(code: int) -> Answer:
    return lambda request: request.send_error(code)


def redirect(address: str) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", address)
        request.send_header("Content-Length", "0")
        request.end_headers()

    return answer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(download, "PAUSE", 0)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            serving.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        serving = Server(f"http://127.0.0.1:{running.server_port}")
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        running.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "small"


def content_of(folder: Path) -> dict[str, bytes]:
    """All entries of a folder except the lock: no partial file may be there, under any name."""
    return {entry: (folder / entry).read_bytes() for entry in os.listdir(folder) if entry != ".lock"}


def gzipped(texts: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.gz": gzip.compress(text) for name, text in texts.items()}


def tarred(texts: dict[str, bytes], *others: tarfile.TarInfo, mode: str = "w:gz") -> bytes:
    """An archive of regular files, after `others`, which have no content of their own."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for other in others:
            archive.addfile(other)
        for name, text in texts.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return packed.getvalue()


def zipped(texts: dict[str, bytes], symlinks: dict[str, str] | None = None) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, target in (symlinks or {}).items():
            member = zipfile.ZipInfo(name)
            member.external_attr = 0o120777 << 16
            archive.writestr(member, target)
        for name, text in texts.items():
            archive.writestr(name, text)
    return packed.getvalue()


PACKINGS = {
    "plain": TEXTS,
    "gz": gzipped(TEXTS),
    "tar": {"all.tar": tarred(TEXTS, mode="w")},
    "tar.gz": {"all.tar.gz": tarred({f"folder/{name}": text for name, text in TEXTS.items()})},
    "zip": {"all.zip": zipped(TEXTS)},
    "gz in a zip": {"all.zip": zipped({f"folder/{name}": text for name, text in gzipped(TEXTS).items()})},
    "mixture": gzipped({"one.de": TEXTS["one.de"]}) | {"rest.tgz": tarred(TEXTS)},
    "old names": {"one.de": TEXTS["one.de"], "one.en": TEXTS["one.en"], "zwei.de": TEXTS["two.de"]},
}


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_mirror_may_pack_its_files_in_any_format(server: Server, folder: Path, packing: str):
    server.files = PACKINGS[packing]
    dataset = replace(SMALL, mirrors=(server.source(*server.files),))
    observer = RecordingObserver()
    assert fetch.download_dataset(dataset, None, observer) == folder
    assert content_of(folder) == TEXTS
    assert set(observer.kept_from) == set(TEXTS)
    assert not observer.failures
    last = {address: (done, total) for address, done, total in observer.steps}
    sizes = {f"{server.address}/{name}": (len(content), len(content)) for name, content in server.files.items()}
    assert last == sizes


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_local_folder_may_pack_files_in_any_format(folder: Path, tmp_path: Path, packing: str):
    mine = tmp_path / "mine"
    (mine / "one.de.d").mkdir(parents=True)
    (mine / "notes.txt").write_text("not asked for")
    (mine / "broken.zip").write_text("not a zip")
    for name, content in PACKINGS[packing].items():
        (mine / name).write_bytes(content)
    fetch.download_dataset(SMALL, str(mine), RecordingObserver())
    assert content_of(folder) == TEXTS


@pytest.mark.parametrize("packing", ["plain", "gz", "old names"])
@pytest.mark.parametrize("slash", ["", "/"])
def test_an_address_may_hold_the_files_individually(server: Server, folder: Path, packing: str, slash: str):
    server.files = {f"a/b/{name}": content for name, content in PACKINGS[packing].items()}
    fetch.download_dataset(SMALL, f"{server.address}/a/b{slash}", RecordingObserver())
    assert content_of(folder) == TEXTS


@pytest.mark.parametrize("packing", ["tar", "tar.gz", "zip"])
def test_an_address_or_a_path_may_be_one_archive(server: Server, folder: Path, tmp_path: Path, packing: str):
    ((name, content),) = PACKINGS[packing].items()
    server.files[name] = content
    fetch.download_dataset(SMALL, f"{server.address}/{name}", RecordingObserver())
    assert content_of(folder) == TEXTS
    (folder / "two.de").unlink()
    (tmp_path / name).write_bytes(content)
    fetch.download_dataset(SMALL, str(tmp_path / name), RecordingObserver())
    assert content_of(folder) == TEXTS


def test_complete_files_are_not_downloaded_again(server: Server, folder: Path):
    server.files = dict(TEXTS)
    fetch.download_dataset(SMALL, server.address, RecordingObserver())
    server.requests.clear()
    observer = RecordingObserver()
    assert fetch.download_dataset(SMALL, server.address, observer) == folder
    assert observer.present_names == list(TEXTS)
    assert not server.requests

    (folder / "two.de").write_bytes(b"fast\n")  # correct size, wrong content
    fetch.download_dataset(SMALL, server.address, observer := RecordingObserver())
    assert list(observer.kept_from) == ["two.de"]
    assert server.requests == [("two.de", None)]
    assert content_of(folder) == TEXTS


def test_another_selection_adds_what_is_missing(server: Server, folder: Path):
    server.files = gzipped(TEXTS)
    german, everything = replace(SMALL, languages=("de",)), ["one.de", "two.de", "one.en"]
    dataset = replace(german, mirrors=(server.source(*(f"{name}.gz" for name in everything)),))
    fetch.download_dataset(dataset.select(), None, RecordingObserver())
    assert content_of(folder).keys() == {"one.de", "two.de"}
    assert [path for path, _ in server.requests] == ["one.de.gz", "two.de.gz"]

    server.requests.clear()
    fetch.download_dataset(dataset.select(["de", "en"]), None, observer := RecordingObserver())
    assert observer.present_names == ["one.de", "two.de"]
    assert server.requests == [("one.en.gz", None)]
    assert content_of(folder) == TEXTS


def test_an_archive_that_is_known_to_lack_the_missing_files_is_not_downloaded(server: Server, folder: Path):
    server.files = {"one.zip": zipped({"one.de": TEXTS["one.de"]}), "two.zip": zipped({"two.de": TEXTS["two.de"]})}
    mirror = server.source("one.zip", "two.zip")
    mirror = replace(mirror, contents={address: [f"{address[-7:-4]}.de"] for address in mirror.addresses})
    fetch.download_dataset(replace(ONLY_TWO, mirrors=(mirror,)), None, RecordingObserver())
    assert [path for path, _ in server.requests] == ["two.zip"]
    assert content_of(folder) == {"two.de": TEXTS["two.de"]}


def test_a_failure_has_the_command_of_the_selection(folder: Path, tmp_path: Path):
    with pytest.raises(UserError) as caught:
        fetch.download_dataset(replace(SMALL, languages=("de",)).select(["en"]), str(tmp_path), RecordingObserver())
    first, *_, last = str(caught.value).splitlines()
    assert first == "small: could not download one.en"
    assert "'regard data get small --languages en --from FOLDER'" in last
    assert content_of(folder) == {}


def test_nothing_is_written_when_all_files_exist(folder: Path):
    folder.mkdir(parents=True)
    for name, text in TEXTS.items():
        (folder / name).write_bytes(text)
    fetch.download_dataset(SMALL, None, RecordingObserver())
    assert set(os.listdir(folder)) == set(TEXTS)


def test_a_file_with_the_wrong_checksum_is_not_kept(server: Server, folder: Path):
    server.files = TEXTS | {"one.de": TEXTS["one.de"].replace(b"7", b"8")}
    with pytest.raises(UserError) as caught:
        fetch.download_dataset(SMALL, server.address, RecordingObserver())
    assert "small: could not download one.de\n" in str(caught.value)
    assert f"{server.address}/one.de: one.de has the wrong content: SHA-256 " in str(caught.value)
    assert "'regard data get small --from FOLDER'" in str(caught.value)
    assert content_of(folder) == {name: TEXTS[name] for name in ("one.en", "two.de")}


@pytest.mark.parametrize("packing", ["plain", "gz", "tar.gz", "zip"])
@pytest.mark.parametrize("text", [b"kur\n", b"kurz\n" + bytes(5_000_000)])
def test_a_file_of_the_wrong_size_is_neither_kept_nor_read_completely(
    folder: Path, tmp_path: Path, packing: str, text: bytes
):
    package = {
        "plain": {"two.de": text},
        "gz": gzipped({"two.de": text}),
        "tar.gz": {"all.tar.gz": tarred({"two.de": text})},
        "zip": {"all.zip": zipped({"two.de": text})},
    }[packing]
    for name, content in package.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=r"two\.de has the wrong content: (4 of 5|more than 5) bytes"):
        fetch.download_dataset(ONLY_TWO, str(tmp_path), RecordingObserver())
    assert content_of(folder) == {}


def test_a_bomb_is_read_to_one_byte_beyond_the_expected_size():
    bomb, target = io.BytesIO(bytes(1_000_000)), io.BytesIO()
    with pytest.raises(Exception, match="more than 5 bytes"):
        fetch._copy(bomb, target, ONLY_TWO.files[0])
    assert bomb.tell() == len(target.getvalue()) == 6


def test_an_archive_that_unpacks_to_too_much_is_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archives, "MAX_BYTES", 10_000)
    (tmp_path / "all.tar.gz").write_bytes(tarred({"zeros": bytes(20_000)} | TEXTS))
    with pytest.raises(UserError, match=r"all\.tar\.gz: damaged \(more than 10,000 bytes\)"):
        fetch.download_dataset(SMALL, str(tmp_path), RecordingObserver())


def test_an_endless_download_is_stopped(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(download, "MAX_BYTES", 10_000)
    server.files = dict(TEXTS)
    with pytest.raises(UserError, match="more than 10,000 bytes"):
        fetch.download_dataset(ONLY_ONE, server.address, RecordingObserver())


def hostile_link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize("form", ["tar.gz", "zip"])
def test_only_the_requested_files_of_an_archive_are_written(folder: Path, tmp_path: Path, form: str):
    secret = tmp_path / "secret"
    secret.write_bytes(TEXTS["two.de"])  # correct content, but behind a link
    linked = {
        "../evil": b"evil",
        "../../two.de": TEXTS["two.de"],
        str(tmp_path / "outside" / "two.de"): TEXTS["two.de"],
        "._one.de": b"stray",
        ".DS_Store": b"stray",
    }
    good = {name: text for name, text in TEXTS.items() if name != "two.de"}
    if form == "zip":
        archive = zipped(linked | good, symlinks={"two.de": TEXTS["two.de"].decode(), "link": str(tmp_path)})
    else:
        links = [
            hostile_link("two.de", str(secret), tarfile.SYMTYPE),
            hostile_link("x/two.de", "../secret", tarfile.LNKTYPE),
            hostile_link("y/two.de", "", tarfile.FIFOTYPE),
            hostile_link("z/two.de", "", tarfile.CHRTYPE),
            hostile_link(".downloads", str(tmp_path), tarfile.SYMTYPE),
        ]
        archive = tarred(linked | good, *links)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / f"all.{form}").write_bytes(archive)
    before = set(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=r"could not download two\.de\n"):
        fetch.download_dataset(SMALL, str(mine), RecordingObserver())
    assert content_of(folder) == good
    assert set(tmp_path.rglob("*")) - before == {folder.parent, folder, *(folder / name for name in (*good, ".lock"))}


def bzip2() -> bytes:
    """A member of which a few bytes could unpack to a large block."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("two.de", TEXTS["two.de"])
    return content.getvalue()


def hostile_header(kind: bytes, size: int) -> bytes:
    """A tar archive whose second member has an invalid header."""
    member = tarfile.TarInfo("two.de")
    member.type, member.size = kind, size
    return tarred({"stray": b""}, mode="w")[:512] + member.tobuf(tarfile.GNU_FORMAT) + bytes(2_048)


def sparse() -> bytes:
    """An archive that ends where its header announces more."""
    header = bytearray(hostile_header(tarfile.GNUTYPE_SPARSE, 0)[:1_024])
    header[512 + 482] = 1
    header[512 + 148 : 512 + 156] = b"        "
    header[512 + 148 : 512 + 156] = b"%06o\0 " % sum(header[512:])
    return bytes(header)


DAMAGED = {
    "all.tar.gz": b"no",
    "all.zip": b"no",
    "two.de.gz": b"no",
    "all.tar": b"no",
    "name.zip": zipped({"é": b""}).replace("é".encode(), b"\xff\xfe"),  # a name flagged as UTF-8 that is not
    "member.zip": bzip2(),
    "backwards.tar": hostile_header(tarfile.REGTYPE, -512),  # which would loop forever
    "name.tar": hostile_header(tarfile.GNUTYPE_LONGNAME, 1 << 70),
    "note.tar": hostile_header(tarfile.XHDTYPE, 1 << 40),
    "sparse.tar": sparse(),
}


@pytest.mark.parametrize("package", DAMAGED.items(), ids=lambda package: package[0])
def test_a_damaged_archive_is_reported(folder: Path, tmp_path: Path, package: tuple[str, bytes]):
    (tmp_path / package[0]).write_bytes(package[1])
    with pytest.raises(UserError, match=rf"{package[0]}: (two\.de: )?damaged \("):
        fetch.download_dataset(ONLY_TWO, str(tmp_path), RecordingObserver())


def test_a_damaged_member_does_not_affect_later_members(folder: Path, tmp_path: Path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in TEXTS.items():
            archive.writestr(name, text)
    (tmp_path / "all.zip").write_bytes(packed.getvalue().replace(b"Zeile 1 ", b"Zeile 2 "))
    with pytest.raises(UserError, match=r"could not download one\.de\n.*all\.zip: one\.de: damaged \(Bad CRC"):
        fetch.download_dataset(SMALL, str(tmp_path), RecordingObserver())
    assert content_of(folder) == {name: text for name, text in TEXTS.items() if name != "one.de"}


def test_an_unknown_home_folder_is_reported_as_missing(folder: Path):
    with pytest.raises(UserError, match=r"^--from ~nobody-at-all/x: no such folder or archive$"):
        fetch.download_dataset(SMALL, "~nobody-at-all/x", RecordingObserver())


@pytest.mark.parametrize(("name", "content"), [(name, PACKINGS[name]) for name in ("gz", "tar.gz", "zip")])
def test_a_truncated_archive_is_reported(folder: Path, tmp_path: Path, name: str, content: dict[str, bytes]):
    for file, whole in content.items():
        (tmp_path / file).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="damaged"):
        fetch.download_dataset(ONLY_ONE, str(tmp_path), RecordingObserver())
    assert content_of(folder) == {}


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_transfer_resumes_if_the_server_supports_ranges(server: Server, folder: Path, ranges: bool):
    text = TEXTS["one.de"]
    server.before["one.de"] = [half(text), lambda request: send(request, text, ranges=ranges)]
    observer = RecordingObserver()
    fetch.download_dataset(ONLY_ONE, server.address, observer)
    assert content_of(folder) == {"one.de": text}
    assert server.requests == [("one.de", None), ("one.de", f"bytes={len(text) // 2}-")]
    assert (len(text) // 2 if ranges else 0) in [done for _, done, _ in observer.steps[2:]]
    assert {total for _, _, total in observer.steps} == {len(text)}


def test_a_server_that_resumes_at_another_offset_causes_a_restart(server: Server, folder: Path):
    text = TEXTS["one.de"]

    def elsewhere(request: BaseHTTPRequestHandler) -> None:
        request.send_response(206)
        request.send_header("Content-Range", f"bytes 5-{len(text) - 1}/{len(text)}")
        request.send_header("Content-Length", str(len(text) - 5))
        request.end_headers()

    server.before["one.de"] = [half(text), elsewhere]
    server.files = dict(TEXTS)
    fetch.download_dataset(ONLY_ONE, server.address, RecordingObserver())
    assert [requested for _, requested in server.requests] == [None, f"bytes={len(text) // 2}-", None]


def test_a_range_that_the_server_does_not_have_causes_a_restart(server: Server, folder: Path):
    server.before["one.de"] = [half(TEXTS["one.de"]), error(416)]
    server.files = dict(TEXTS)
    fetch.download_dataset(ONLY_ONE, server.address, RecordingObserver())
    assert content_of(folder) == {"one.de": TEXTS["one.de"]}
    assert server.requests[-1] == ("one.de", None)


def test_a_transfer_that_always_breaks_is_reported_and_leaves_no_file(server: Server, folder: Path):
    text = TEXTS["one.de"]
    server.before["one.de"] = [lambda request: send(request, text, stop_after=1_000) for _ in range(10)]
    with pytest.raises(UserError, match=rf"one\.de: ended after 3,000 of {len(text):,} bytes \(3 tries\)"):
        fetch.download_dataset(ONLY_ONE, server.address, RecordingObserver())
    assert len(server.requests) == 3
    assert content_of(folder) == {}


@pytest.mark.parametrize("problem", [error(503), error(429), lambda request: None], ids=["503", "429", "hangs up"])
def test_transient_errors_are_retried(server: Server, folder: Path, problem: Answer):
    server.files = dict(TEXTS)
    server.before["two.de"] = [problem, problem]
    fetch.download_dataset(ONLY_TWO, server.address, RecordingObserver())
    assert len(server.requests) == 3
    server.before["two.de"] = [problem] * 3
    (folder / "two.de").unlink()
    with pytest.raises(UserError, match=r"\(3 tries\)"):
        fetch.download_dataset(ONLY_TWO, server.address, RecordingObserver())


def test_pauses_between_retries_grow(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch):
    pauses: list[float] = []
    monkeypatch.setattr(download, "PAUSE", 0.5)
    monkeypatch.setattr(download.time, "sleep", pauses.append)
    server.files = dict(TEXTS)
    server.before["two.de"] = [error(500), error(502)]
    fetch.download_dataset(ONLY_TWO, server.address, RecordingObserver())
    assert pauses == [0.5, 1.0]


def test_a_refusal_is_not_retried(server: Server, folder: Path):
    server.before["one.de"] = [error(403)]
    with pytest.raises(UserError, match=r"/one\.de: 403 Forbidden"):
        fetch.download_dataset(SMALL, server.address, RecordingObserver())
    assert len(server.requests) == 1


def test_a_missing_file_is_reported_and_the_others_are_kept(server: Server, folder: Path):
    server.files = {name: text for name, text in TEXTS.items() if name != "two.de"}
    with pytest.raises(UserError) as caught:
        fetch.download_dataset(SMALL, server.address, RecordingObserver())
    assert str(caught.value).startswith("small: could not download two.de\n")
    assert f"{server.address}/two.de: not found, neither plain nor as .gz" in str(caught.value)
    assert content_of(folder) == server.files


@pytest.mark.parametrize("target", ["file://{file}", "ftp://127.0.0.1:1/two.de", "data:,kurz%0A", "javascript:0"])
def test_redirections_outside_http_are_refused(server: Server, folder: Path, tmp_path: Path, target: str):
    (tmp_path / "file").write_bytes(TEXTS["two.de"])  # correct content, but a local file
    server.before["two.de"] = [redirect(target.format(file=tmp_path / "file"))]
    with pytest.raises(UserError, match=r"/two\.de: .*(not allowed|unknown url type)"):
        fetch.download_dataset(ONLY_TWO, server.address, RecordingObserver())
    assert content_of(folder) == {}


def test_a_redirection_within_http_is_followed(server: Server, folder: Path):
    server.files = {"elsewhere": TEXTS["two.de"]}
    server.before["two.de"] = [redirect(f"{server.address}/elsewhere")]
    fetch.download_dataset(ONLY_TWO, server.address, RecordingObserver())
    assert content_of(folder) == {"two.de": TEXTS["two.de"]}


def test_the_next_mirror_provides_what_the_first_lacks(server: Server, folder: Path):
    server.files = {"one.de": TEXTS["one.de"], "one.en": b"wrong", "all.zip": zipped(TEXTS)}
    first, second = server.source("one.de", "one.en", "two.de"), server.source("all.zip", "never.zip")
    observer = RecordingObserver()
    fetch.download_dataset(replace(SMALL, mirrors=(first, second)), None, observer)
    assert content_of(folder) == TEXTS
    assert observer.kept_from["one.de"].endswith("/one.de")
    assert observer.kept_from["one.en"].endswith("/all.zip")
    assert len(observer.failures) == 2
    assert [path for path, _ in server.requests] == ["one.de", "one.en", "two.de", "all.zip"]


def test_when_all_mirrors_fail_each_reason_is_reported(server: Server, folder: Path):
    gone = Mirror(("http://127.0.0.1:1/one.de", "http://127.0.0.1:1/one.en"))
    with pytest.raises(UserError) as caught:
        fetch.download_dataset(replace(SMALL, mirrors=(gone, server.source("all.zip"))), None, RecordingObserver())
    lines = str(caught.value).splitlines()
    assert lines[0] == "small: could not download one.de, one.en, two.de"
    assert lines[1].startswith("  http://127.0.0.1:1/one.de: ")  # and one.en is not requested from the same server
    assert lines[2] == f"  {server.address}/all.zip: 404 Not Found"
    assert "--from FOLDER" in lines[3]


@pytest.mark.parametrize("after", [-1, 70_000])
def test_an_interruption_leaves_no_partial_file(server: Server, folder: Path, after: int):
    server.files = dict(TEXTS)
    with pytest.raises(KeyboardInterrupt):
        fetch.download_dataset(ONLY_ONE, server.address, RecordingObserver(interrupt_after=after))
    assert content_of(folder) == {}
    fetch.download_dataset(ONLY_ONE, server.address, RecordingObserver())
    assert content_of(folder) == {"one.de": TEXTS["one.de"]}


def test_leftovers_of_a_killed_process_are_removed(folder: Path, tmp_path: Path):
    (folder / ".downloads").mkdir(parents=True)
    (folder / ".downloads" / "download").write_bytes(b"half")
    (folder / ".one.de.x1y2").write_bytes(b"half")
    (tmp_path / "all.zip").write_bytes(zipped(TEXTS))
    fetch.download_dataset(SMALL, str(tmp_path), RecordingObserver())
    assert content_of(folder) == TEXTS
    assert not [*folder.glob(".one*"), *folder.glob(".downloads*")]
    for name in (".one.de.abcd1234", ".downloads.abcd1234"):  # killed when everything was complete
        (folder / name).mkdir()
    fetch.download_dataset(SMALL, str(tmp_path), RecordingObserver())
    assert not [*folder.glob(".one*"), *folder.glob(".downloads*")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_special_file_in_place_of_a_leftover_is_removed(folder: Path, tmp_path: Path):
    folder.mkdir(parents=True)
    os.mkfifo(folder / ".downloads")
    (tmp_path / "all.zip").write_bytes(zipped(TEXTS))
    fetch.download_dataset(SMALL, str(tmp_path), RecordingObserver())
    assert content_of(folder) == TEXTS


def test_a_large_archive_of_zeros_is_not_read_to_its_end(folder: Path, tmp_path: Path):
    with (tmp_path / "all.tar").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UserError, match=r"could not download one\.de"):
        fetch.download_dataset(SMALL, str(tmp_path / "all.tar"), RecordingObserver())


def test_a_second_process_is_locked_out(folder: Path, tmp_path: Path):
    folder.mkdir(parents=True)
    with files.lock_folder(folder), pytest.raises(UserError, match="another process is downloading small; wait"):
        fetch.download_dataset(SMALL, str(tmp_path), RecordingObserver())
    assert content_of(folder) == {}


@pytest.mark.parametrize("origin", ["ftp://example.org/x", "file:///etc", "javascript:alert(1)", "https:", "http:///x"])
def test_only_http_addresses_are_accepted(folder: Path, origin: str):
    with pytest.raises(UserError, match="must be a folder, an archive, or a URL with http:// or https://"):
        fetch.download_dataset(SMALL, origin, RecordingObserver())
    assert not folder.exists()


def test_an_invalid_address_is_refused(folder: Path):
    with pytest.raises(UserError, match=r"--from http://\[: Invalid IPv6 URL"):
        fetch.download_dataset(SMALL, "http://[", RecordingObserver())
    with pytest.raises(UserError, match=r"127\.0\.0\.1/a b/one\.de: "):
        fetch.download_dataset(SMALL, "http://127.0.0.1/a b", RecordingObserver())


def test_a_missing_or_empty_folder_is_reported(folder: Path, tmp_path: Path):
    with pytest.raises(UserError, match="nowhere: no such folder or archive"):
        fetch.download_dataset(SMALL, str(tmp_path / "nowhere"), RecordingObserver())
    assert not folder.exists()
    with pytest.raises(UserError, match=r"one\.de, one\.en, two\.de\n  no file with one of these names"):
        fetch.download_dataset(SMALL, str(tmp_path), RecordingObserver())
