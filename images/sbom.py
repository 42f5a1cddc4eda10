"""The bill of materials of an image: what is in its file system, as CycloneDX 1.5 (JSON), the same for the same image.

Packages are read from where scanners look for them too: Debian's in /var/lib/dpkg (in `status.d` where the image has
parts of packages and no dpkg, as distroless images do), Python's in their `.dist-info`. Our programs and kubectl are
there as files.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import uuid
from email.parser import HeaderParser
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from . import kubectl

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Iterator

Component = dict[str, Any]

_SPACE = uuid.UUID("7d0f0b3e-5a0a-4d5e-9e0c-6d6f3f0a1c52")  # ours alone: names in it are image ids
_PACKAGES = re.compile(r"var/lib/dpkg/(status|status\.d/[^/]+)")
_PYTHON = re.compile(r"(.*/)?[^/]+\.dist-info/(METADATA|RECORD)")
_PROGRAMS = re.compile(r"usr/local/lib/mpi-agents/(kubectl|rshagent|rshagent-direct|sshd-start)")


def bill(image: str, identity: str, created: str, architecture: str, files: tarfile.TarFile) -> str:
    """Return the bill of an image: its full name, id, time and architecture as the engine has them, and its files."""
    version = image.rpartition(":")[2]
    components = sorted(_components(files, version, architecture), key=lambda one: str(one["bom-ref"]))
    unique = {str(one["bom-ref"]): one for one in components}
    subject: Component = {"type": "container", "bom-ref": image, "name": image.rpartition(":")[0], "version": version}
    subject["hashes"] = [{"alg": "SHA-256", "content": identity.removeprefix("sha256:")}]
    whole = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_SPACE, f'{image} {identity}')}",
        "version": 1,
        "metadata": {"timestamp": re.sub(r"\.\d+", "", created), "component": subject},
        "components": [*unique.values()],
    }
    return json.dumps(whole, indent=1, sort_keys=True) + "\n"


def path_of(image: str, folder: str) -> str:
    """Return where the bill of an image is written: `FOLDER/mpi-agents-0.1.0.cdx.json`."""
    return os.path.join(folder, re.sub(r"[^\w.]+", "-", image.rpartition("/")[2]) + ".cdx.json")


def _components(files: tarfile.TarFile, version: str, architecture: str) -> Iterator[Component]:
    python: dict[str, dict[str, bytes]] = {}
    for member in files:
        name = posixpath.normpath(member.name).lstrip("/")
        content = files.extractfile(member) if member.isreg() else None
        if content is None:
            continue
        if _PACKAGES.fullmatch(name) and not name.endswith(".md5sums"):
            yield from _of_debian(content.read().decode("utf-8", "replace"))
        elif found := _PYTHON.fullmatch(name):
            python.setdefault(posixpath.dirname(name), {})[found[2]] = content.read()
        elif found := _PROGRAMS.fullmatch(name):
            digest = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]  # it is a file
            yield _program(found[1], digest, version, architecture)
    yield from (_of_python(one) for one in python.values() if "METADATA" in one)


def _of_debian(text: str) -> Iterator[Component]:
    for paragraph in text.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): *(.*)$", paragraph, re.MULTILINE))
        if "Package" in fields and fields.get("Status", "install ok installed").endswith(" installed"):
            name, version = fields["Package"], fields["Version"]
            purl = f"pkg:deb/debian/{quote(name)}@{quote(version, safe='')}?arch={fields.get('Architecture', 'all')}"
            yield _component("library", name, version, purl)


def _of_python(files: dict[str, bytes]) -> Component:
    fields = HeaderParser().parsestr(files["METADATA"].decode("utf-8", "replace"))
    name, version = str(fields["Name"]), str(fields["Version"])
    purl = f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{quote(version, safe='')}"
    found = _component("library", name, version, purl)
    if "RECORD" in files:  # which has the hashes of the package's own files
        digest = hashlib.sha256(files["RECORD"]).hexdigest()
        found["properties"] = [{"name": "mpi-agents:sha256-of-RECORD", "value": digest}]
    if fields["License-Expression"]:
        found["licenses"] = [{"expression": str(fields["License-Expression"])}]
    return found


def _program(name: str, digest: str, version: str, architecture: str) -> Component:
    if name == "kubectl":  # of another source it is known by its hash alone
        version = kubectl.VERSION if kubectl.SHA256.get(architecture) == digest else "unknown"
        found = _component("application", name, version, f"pkg:generic/kubernetes/{name}@{version}")
    else:
        found = _component("application", name, version, f"pkg:generic/mpi-agents/{name}@{quote(version)}")
    return {**found, "hashes": [{"alg": "SHA-256", "content": digest}]}


def _component(kind: str, name: str, version: str, purl: str) -> Component:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
