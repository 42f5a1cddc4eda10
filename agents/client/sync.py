"""A folder's files in all pods of a new job: a ConfigMap that belongs to the job, unpacked by an init container.

No server and no storage is needed for it, but the user's image needs `tar` and `gzip`, and all must fit into one object
of the API server. The init container has the main container's image and resources: it costs a pod no more than that.
"""

from __future__ import annotations

import base64
import io
import os
import tarfile
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from agents.client.connection import Connection
from agents.client.convert.common import with_main
from agents.client.errors import ClientError, ManifestError
from agents.client.manifests import main_name
from agents.job.json_object import Body, Object, mappings, part
from agents.job.template import main_container
from agents.kube.kinds import CONFIG_MAP, Kind

FOLDER = "/workspace"
"""Where the files are, and where programs start, unless the template has a working directory."""
MOST = 1_000_000  # bytes of the packed files: Kubernetes takes 1 MiB (validation.MaxSecretSize), names included
WHOLE_MOST, _FILES_MOST = 64 << 20, 10_000  # before they are packed
_LEFT_OUT = frozenset({
    ".git", ".hg", ".svn", "__pycache__", ".venv", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache",
    ".tox", ".DS_Store", ".ssh", "id_rsa", "id_ecdsa", "id_ed25519", ".gnupg", ".env", ".netrc", ".git-credentials",
    ".aws", ".azure", ".kube", ".docker", ".npmrc", ".pypirc",
})  # fmt: skip
_VOLUME, _PACKED_VOLUME, _PACKED = "mpi-sync", "mpi-sync-packed", "files.tar.gz"
_PACKED_FOLDER = "/mpi-sync"
_ROLES = ("Launcher", "Worker")
_SAME = ("image", "imagePullPolicy", "resources", "securityContext")  # as the main container's


def packed(folder: str) -> bytes:
    """Return a folder's files as a tar, without caches, repositories and credentials. Raises ManifestError."""
    if not os.path.isdir(folder):
        raise ManifestError(f"{folder} is no folder")
    buffer, size, count = io.BytesIO(), 0, 0
    try:
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            for path in _paths(folder):
                entry = tar.gettarinfo(path, os.path.relpath(path, folder))
                if entry is None or not (entry.isreg() or entry.islnk() or entry.isdir() or entry.issym()):
                    continue  # a socket or a device
                entry.uid = entry.gid = 0
                entry.uname = entry.gname = ""
                size, count = size + entry.size, count + 1
                if size > WHOLE_MOST or count > _FILES_MOST or buffer.tell() > MOST:
                    raise _too_large(folder)
                if entry.isreg():
                    with open(path, "rb") as file:
                        tar.addfile(entry, file)
                else:
                    tar.addfile(entry)
    except OSError as error:
        raise ManifestError(f"{error.filename or folder} can't be read: {error.strerror or error}") from None
    if buffer.tell() > MOST:
        raise _too_large(folder)
    return buffer.getvalue()


def mounted(manifest: Object) -> Body:
    """Return a valid kubeflow MPIJob, its pods with the files of the job's ConfigMap. Raises ManifestError."""
    name, roles = part(manifest, "metadata").get("name"), part(manifest, "spec", "mpiReplicaSpecs")
    if not name or not roles:
        raise ManifestError("files can be given to a kubeflow MPIJob with a name only")
    main = main_name(manifest)
    changed = {
        role: {**roles[role], "template": _with_files(part(roles[role], "template"), str(name), main)}
        for role in _ROLES
        if role in roles
    }
    return {**manifest, "spec": {**part(manifest, "spec"), "mpiReplicaSpecs": {**roles, **changed}}}


def create(connection: Connection, kind: Kind, manifest: Object, data: bytes | None) -> Body:
    """Create a job of this kind, and the ConfigMap of its files, of this packed `data`.

    None: if the job mounts such files, they are those of a job that is run again: their ConfigMap gets one owner more.
    """
    namespace = str(part(manifest, "metadata").get("namespace"))
    used = CONFIG_MAP.path(namespace, quote(name, safe="")) if (name := _used(manifest)) else ""
    known = part(connection.get(used), "metadata") if used and data is None else {}
    made = connection.create(kind, namespace, {**manifest})
    owner = {"apiVersion": manifest.get("apiVersion"), "kind": manifest.get("kind")}
    owner |= {key: part(made, "metadata").get(key) for key in ("name", "uid")}
    try:
        if owners := mappings(known.get("ownerReferences")):  # a user's own has none, and is to stay
            version = known.get("resourceVersion")  # another job may become an owner at the same time
            change = {"ownerReferences": [*owners, owner], "resourceVersion": version}
            connection.patch(used, {"metadata": change})
        elif data is not None:
            connection.create(CONFIG_MAP, namespace, config_map(manifest, data, [owner]))
    except ClientError:
        connection.delete(kind.path(namespace, str(owner["name"])), str(owner["uid"]))
        raise
    return made


def config_map(manifest: Object, data: bytes, owners: Sequence[Object] = ()) -> Body:
    """Return the ConfigMap of the packed files that a job's pods get."""
    metadata: Body = {"name": _used(manifest)} | ({"ownerReferences": [*owners]} if owners else {})
    content = {"immutable": True, "binaryData": {_PACKED: base64.b64encode(data).decode()}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content}


def _used(manifest: Object) -> str:
    """The name of the ConfigMap whose files a job's pods get; "" if there is none."""
    role = part(manifest, "spec", "mpiReplicaSpecs", "Launcher", "template", "spec")
    volumes = {str(one.get("name")): one for one in mappings(role.get("volumes"))}
    return str(part(volumes.get(_PACKED_VOLUME), "configMap").get("name") or "")


def _paths(folder: str) -> Iterator[str]:
    """The files and folders below a folder, in a fixed order. Raises OSError."""

    def fail(error: OSError) -> None:
        raise error

    for at, folders, files in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        yield from (os.path.join(at, name) for name in (*folders, *sorted(files)) if name not in _LEFT_OUT)


def _with_files(template: Object, job: str, main: str) -> Body:
    """Return a pod template whose main container, of this name or the first, starts in the folder of the files."""
    spec, old_main = part(template, "spec"), main_container(template, main)
    folder = str(old_main.get("workingDir") or FOLDER)
    mount = {"name": _VOLUME, "mountPath": folder}
    unpack = {
        "name": _VOLUME,
        "command": ["tar", "-xzof", f"{_PACKED_FOLDER}/{_PACKED}", "-C", folder],
        "volumeMounts": [mount, {"name": _PACKED_VOLUME, "mountPath": _PACKED_FOLDER}],
    } | {key: old_main[key] for key in _SAME if key in old_main}
    volumes: list[dict[str, Any]] = [
        {"name": _VOLUME, "emptyDir": {}},
        {"name": _PACKED_VOLUME, "configMap": {"name": f"{job}-files"}},
    ]
    mounts = [*mappings(old_main.get("volumeMounts")), mount]
    made = with_main(template, main, {"workingDir": folder, "volumeMounts": mounts})
    made["spec"] |= {
        "initContainers": [*mappings(spec.get("initContainers")), unpack],
        "volumes": [*mappings(spec.get("volumes")), *volumes],
    }
    return made


def _too_large(folder: str) -> ManifestError:
    return ManifestError(
        f"{folder} is too large: its files must fit into {MOST // 1000} kB packed; use --volume for more"
    )
