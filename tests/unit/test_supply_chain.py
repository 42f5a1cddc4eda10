"""What the images are made of is pinned, by digest, hash or checksum; and it is written down beside them."""

from __future__ import annotations

import glob
import hashlib
import io
import json
import os
import re
import socketserver
import subprocess
import sys
import tarfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest

from images import catalog, kubectl, lock, sbom
from tests.bills import names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = b"\x7fELF a program"
WRONG = "0" * 64


# Base images.


@pytest.mark.parametrize("image", catalog.IMAGES.values(), ids=lambda image: image.name)
def test_every_base_of_a_registry_is_pinned_by_digest(image: catalog.Image) -> None:
    with open(os.path.join(image.context, image.dockerfile), encoding="utf-8") as file:
        text = file.read()
    for begun in re.findall(r"^FROM (\S+)", text, re.MULTILINE):
        argument = re.fullmatch(r"\$\{(\w+)\}", begun)
        assert argument or begun == "scratch", begun
        if argument and argument[1] not in image.stands_on:
            assert re.fullmatch(r"\S+:\S+@sha256:[0-9a-f]{64}", image.bases()[argument[1]])
    assert len({pinned for one in catalog.IMAGES.values() for pinned in one.bases().values()}) == 3


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve so, and give the address."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("words", [["--unpinned"], ["--base", "debian:bookworm-slim"]])
def test_nothing_is_pushed_that_was_built_from_a_tag(words: list[str]) -> None:
    call = [sys.executable, "-m", "images.build", "--push", "--repository", "r", *words]
    environ = {**os.environ, "DOCKER_HOST": "unix:///nowhere"}
    done = subprocess.run(call, env=environ, cwd=catalog.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--push needs base images by digest" in done.stderr


# Python packages.


@pytest.mark.parametrize(("path", "asked"), lock.locks().items())
def test_every_package_is_locked_by_version_and_hash(path: str, asked: tuple[str, ...]) -> None:
    with open(os.path.join(catalog.ROOT, path), encoding="ascii") as file:
        head, *lines = file.read().splitlines()
    assert head == f"# Made by `make lock` from: {', '.join(asked)}"  # else it is out of date
    entries = re.split(r"\n(?=\S)", "\n".join(lines))
    for entry in entries:
        first, *hashes = entry.replace("\\\n", "\n").split("\n")
        assert re.fullmatch(r"[a-z0-9-]+==[\w.]+( ; .+?)? ?", first), first
        assert hashes
        assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64} ?", one) for one in hashes), first
    names = {entry.partition("==")[0] for entry in entries}
    assert {re.split("[<>=~]", one)[0].lower() for one in asked} <= names
    assert "://" not in "\n".join(lines)


def test_a_dockerfile_installs_from_locks_alone() -> None:
    files = [path for path in glob.glob(f"{catalog.ROOT}/images/**/*ockerfile", recursive=True) if os.path.isfile(path)]
    assert len(files) > 9
    for path in files:
        with open(path, encoding="utf-8") as file:
            calls = re.findall(r"pip install (.*?)(?: && |\n(?! ))", file.read().replace("\\\n", " "))
        for call in calls:
            assert "--require-hashes" in call or "--no-index" in call, (path, call)
            assert not re.search(r"\w==|'\w", call), (path, call)


# kubectl.


def fetch(source: str, target: Path, **more: str) -> None:
    kubectl.fetch(source, str(target), architecture="amd64", index_url=None, **more)


def test_a_kubectl_with_another_checksum_fails(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "kubectl"
    source.write_bytes(PROGRAM)
    with pytest.raises(kubectl.KubectlError) as caught:
        fetch(str(source), target, sha256=WRONG)
    found = hashlib.sha256(PROGRAM).hexdigest()
    assert str(caught.value) == f"the kubectl of {source} has the SHA-256 {found}, not {WRONG}"
    assert not target.exists()
    fetch(str(source), target, sha256=found.upper())
    assert target.read_bytes() == PROGRAM
    assert os.access(target, os.X_OK)


@pytest.fixture
def url() -> Iterator[str]:
    class Program(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(PROGRAM)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with serving(Program) as address:
        yield f"http://{address}/kubectl"


def test_what_is_fetched_needs_a_checksum(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "kubectl"
    with pytest.raises(kubectl.KubectlError, match="give it by --kubectl-sha256"):
        fetch(url, target)
    assert not target.exists()
    fetch(url, target, sha256=hashlib.sha256(PROGRAM).hexdigest())
    monkeypatch.setattr(kubectl, "DEFAULT", url)  # whose checksum is the pinned one
    with pytest.raises(kubectl.KubectlError, match=f"not {kubectl.SHA256['amd64']}"):
        fetch(url, target)


def test_the_pinned_kubectl_has_a_checksum_for_each_architecture() -> None:
    assert kubectl.DEFAULT.endswith(f"=={kubectl.VERSION}")
    assert kubectl.SHA256.keys() == {"amd64", "arm64"}
    assert all(re.fullmatch("[0-9a-f]{64}", one) for one in kubectl.SHA256.values())


# The bill of materials.

STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
FILES = {
    "var/lib/dpkg/status.d/libc6": STATUS.partition("\n\n")[0] + "\n",
    "var/lib/dpkg/status": STATUS,
    "usr/lib/python3.11/dist-packages/Some_Thing-2.0.dist-info/METADATA": "Metadata-Version: 2.4\nName: Some_Thing\n"
    "Version: 2.0\nLicense-Expression: MIT\n\nName: not this\n",
    "usr/lib/python3.11/dist-packages/Some_Thing-2.0.dist-info/RECORD": "it/a.py,sha256=x,1\n",
    "usr/local/lib/mpi-agents/rshagent": "the client",
    "usr/local/lib/mpi-agents/kubectl": "a kubectl",
    "usr/local/lib/mpi-agents/python/VERSION": "x",
    "etc/passwd": "root",
}
IMAGE = ("registry.example:5000/mpi-agents:1.2-kubectl", f"sha256:{'a' * 64}", "2026-01-02T03:04:05.678Z", "amd64")


def archive(files: dict[str, str]) -> tarfile.TarFile:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as made:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            made.addfile(member, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("usr/local/bin/rshagent")
        link.type, link.linkname = tarfile.SYMTYPE, "../lib/mpi-agents/rshagent"
        made.addfile(link)
    data.seek(0)
    return tarfile.open(fileobj=data, mode="r|")


def test_a_bill_has_what_is_in_the_image() -> None:
    text = sbom.bill(*IMAGE, archive(FILES))
    found = json.loads(text)
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.5", 1)
    subject = found["metadata"]["component"]
    assert (subject["name"], subject["version"]) == ("registry.example:5000/mpi-agents", "1.2-kubectl")
    assert found["metadata"]["timestamp"] == "2026-01-02T03:04:05Z"
    components = {one["purl"]: one for one in found["components"]}
    assert len(components) == len(found["components"]) == len({one["bom-ref"] for one in found["components"]})
    assert components.keys() == {
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64",
        "pkg:pypi/some-thing@2.0",
        "pkg:generic/mpi-agents/rshagent@1.2-kubectl",
        "pkg:generic/kubernetes/kubectl@unknown",
    }
    assert components["pkg:pypi/some-thing@2.0"]["licenses"] == [{"expression": "MIT"}]
    (digest,) = components["pkg:generic/mpi-agents/rshagent@1.2-kubectl"]["hashes"]
    assert digest == {"alg": "SHA-256", "content": hashlib.sha256(b"the client").hexdigest()}


def test_the_pinned_kubectl_is_known_by_its_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kubectl.SHA256, "amd64", hashlib.sha256(b"a kubectl").hexdigest())
    components = json.loads(sbom.bill(*IMAGE, archive(FILES)))["components"]
    assert names(components, "generic")["kubectl"] == kubectl.VERSION


def test_the_same_image_has_the_same_bill() -> None:
    backwards = dict(reversed(FILES.items()))
    assert sbom.bill(*IMAGE, archive(FILES)) == sbom.bill(*IMAGE, archive(backwards))
    other = (IMAGE[0], f"sha256:{'b' * 64}", *IMAGE[2:])
    assert sbom.bill(*IMAGE, archive(FILES)) != sbom.bill(*other, archive(FILES))


def test_a_bill_is_called_as_its_image() -> None:
    assert sbom.path_of(IMAGE[0], "/there") == "/there/mpi-agents-1.2-kubectl.cdx.json"
