"""A pod's volumes: folders of this machine, filled as the kubelet fills them."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from . import manifest
from .manifest import ManifestError
from .resources import CONFIG_MAPS, SECRETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .store import Store

Object = dict[str, Any]

_MODE = 0o644
_ANYBODY = 0o777  # mode of an emptyDir, whoever the containers' users are
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a path in pods
_ELSEWHERE = frozenset({"hostPath", "emptyDir", "persistentVolumeClaim"})  # not filled by us
_CLAIMS = "claims"  # the folder of the claims' folders
_KEYS = {"ConfigMap": CONFIG_MAPS.key, "Secret": SECRETS.key}


class MissingError(Exception):
    """An object that a volume shows is not there yet: the kubelet waits for it."""


class Mount(NamedTuple):
    """What a container sees at `path`: a folder or file of this machine."""

    path: str
    source: str
    is_read_only: bool


class Volumes:
    """One pod's. `hidden` is a folder that no mount may cover: the cluster's own, with the claims' folders in it."""

    def __init__(self, store: Store, pod: Object, folder: str, *, hidden: str, ca: str) -> None:
        self._store = store
        self._pod = pod
        self._folder = folder
        self._ca = ca
        self._paths: dict[str, str] = {}
        self._hidden = hidden
        self._rewritten: dict[str, str] = {}

    def shown(self) -> dict[str, str]:
        """The paths that a mount can show, each with what is behind it, which is made now. Raises ManifestError."""
        self._paths = manifest.paths(self._pod)
        self._make_folders()
        shown = {path: self._source(path) for path in self._paths if _can_be_shown(path, self._hidden)}
        for path, source in shown.items():
            if path != source:
                _make_sub_path(source)
        return shown

    def mounts(self, container: Object) -> list[Mount]:
        """What an engine's container mounts, except the shared memory. Call it after `fill`."""
        found = []
        for one in container.get("volumeMounts") or ():
            if self._is_shared_memory(one):
                continue
            source = self._place(one["name"], one.get("subPath", ""))
            _make_sub_path(source)
            found.append(Mount(one["mountPath"], source, bool(one.get("readOnly"))))
        return found

    def shared_memory(self) -> str:
        """The size of the volume in memory that the pod has as /dev/shm; "" if there is none, or it names none."""
        for container in manifest.containers(self._pod):
            for mount in filter(self._is_shared_memory, container.get("volumeMounts") or ()):
                return str(self._named(mount["name"])["emptyDir"].get("sizeLimit", ""))
        return ""

    def rewritten(self, *, mounted: bool) -> Mapping[str, str]:
        """The other paths; all of them where nothing is mounted."""
        self._rewritten = {
            path: self._source(path)
            for path in self._paths
            if (not mounted or not _can_be_shown(path, self._hidden)) and not _is_above(path, self._hidden)
        }
        return self._rewritten

    def fill(self, token: Callable[[], str]) -> None:
        """Make all folders and files, or write them again. Raises MissingError, ManifestError."""
        self._make_folders()
        for volume in self._volumes():
            self._fill(volume, token)

    def shows(self, config_map: Object) -> bool:
        """Whether a volume shows this config map."""
        meta = config_map["metadata"]
        own = meta["namespace"] == self._pod["metadata"]["namespace"]
        sources = (source for volume in self._volumes() for source in _sources(volume))
        return own and any((source.get("configMap") or {}).get("name") == meta["name"] for source in sources)

    def folder(self, name: str) -> str:
        """A volume's folder."""
        return os.path.join(self._folder, name)

    def value(self, kind: str, name: str, key: str) -> str | None:
        """A value of a config map or of a secret."""
        thing = self._store.get(_KEYS[kind], self._pod["metadata"]["namespace"], name)
        data = _contents(thing) if thing is not None else {}
        return data[key].decode(errors="replace") if key in data else None

    def _is_shared_memory(self, mount: Object) -> bool:
        directory = self._named(mount["name"]).get("emptyDir") or {}
        return bool(mount["mountPath"] == _SHARED_MEMORY and directory.get("medium") == "Memory")

    def _source(self, path: str) -> str:
        volume, _, below = self._paths[path].partition("/")
        return self._place(volume, below)

    def _place(self, name: str, below: str) -> str:
        """The folder of a volume, or what is below it."""
        volume = self._named(name)
        place = self.folder(name)
        if "hostPath" in volume:
            place = volume["hostPath"]["path"]
        elif "persistentVolumeClaim" in volume:
            claim = f"{self._pod['metadata']['namespace']}.{volume['persistentVolumeClaim']['claimName']}"
            place = os.path.join(self._hidden, _CLAIMS, claim)
        return os.path.join(place, below) if below else str(place)

    def _make_folders(self) -> None:
        for volume in self._volumes():
            place = self._place(volume["name"], "")
            if "hostPath" not in volume and not os.path.exists(place):
                os.makedirs(place)
                if "emptyDir" in volume or "persistentVolumeClaim" in volume:
                    os.chmod(place, _ANYBODY)

    def _named(self, name: str) -> Object:
        return next((one for one in self._volumes() if one["name"] == name), {})

    def _volumes(self) -> list[Object]:
        return list(self._pod["spec"].get("volumes") or ())

    def _fill(self, volume: Object, token: Callable[[], str]) -> None:
        if not _ELSEWHERE.isdisjoint(volume):
            return
        mode = next((value.get("defaultMode", _MODE) for key, value in volume.items() if key != "name"), _MODE)
        for source in _sources(volume):
            self._project(self.folder(volume["name"]), source, mode, token)

    def _project(self, folder: str, source: Object, mode: int, token: Callable[[], str]) -> None:
        if "serviceAccountToken" in source:
            _write(folder, source["serviceAccountToken"]["path"], token().encode(), _MODE)  # whoever the user is
        elif "downwardAPI" in source:
            for item in source["downwardAPI"].get("items") or ():
                _write(folder, item["path"], manifest.field(self._pod, item["fieldRef"]["fieldPath"]).encode(), mode)
        elif "configMap" in source or "secret" in source:
            kind = "ConfigMap" if "configMap" in source else "Secret"
            wanted = source.get("configMap") or source["secret"]
            self._show(folder, kind, wanted, mode)
        else:
            kinds = ", ".join(key for key in source if key != "name")
            raise ManifestError(f"the stand-in has no volumes of kind {kinds}")

    def _show(self, folder: str, kind: str, wanted: Object, mode: int) -> None:
        name = wanted.get("name") or wanted["secretName"]
        thing = self._store.get(_KEYS[kind], self._pod["metadata"]["namespace"], name)
        if kind == "ConfigMap" and name == "kube-root-ca.crt" and thing is None:  # every namespace of a cluster has it
            thing = {"data": {"ca.crt": self._ca}}
        if thing is None:
            if wanted.get("optional"):
                return
            raise MissingError(f'{kind.lower()} "{name}" not found')
        data = _contents(thing)
        items = wanted.get("items") or [{"key": key, "path": key} for key in data]
        for item in items:
            if item["key"] not in data:
                raise MissingError(f'{kind.lower()} "{name}" has no key {item["key"]}')
            text = data[item["key"]]
            if self._rewritten:
                text = manifest.moved(text.decode(errors="surrogateescape"), self._rewritten).encode(
                    errors="surrogateescape"
                )
            _write(folder, item["path"], text, item.get("mode", mode))


def _sources(volume: Object) -> list[Object]:
    """What a volume is filled from: one that is not projected is its only source."""
    return list(volume["projected"].get("sources") or ()) if "projected" in volume else [volume]


def _contents(thing: Object) -> dict[str, bytes]:
    plain = {key: str(value).encode() for key, value in (thing.get("stringData") or {}).items()}
    if thing.get("kind") == "Secret":
        return {key: base64.b64decode(value) for key, value in (thing.get("data") or {}).items()} | plain
    binary = {key: base64.b64decode(value) for key, value in (thing.get("binaryData") or {}).items()}
    return {key: str(value).encode() for key, value in (thing.get("data") or {}).items()} | binary


def _write(folder: str, path: str, data: bytes, mode: int) -> None:
    """Write a file by a rename: no process sees half of one."""
    place = os.path.join(folder, path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    new = f"{place}.new"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
    os.chmod(new, mode)
    os.replace(new, place)


def _make_sub_path(source: str) -> None:
    """Make a subPath's folder, as the kubelet does: with the mode of the volume."""
    if not os.path.exists(source):
        os.makedirs(source)
        os.chmod(source, os.stat(os.path.dirname(source)).st_mode & _ANYBODY)


def _can_be_shown(path: str, hidden: str) -> bool:
    """Whether there is something below / to show it in, and nothing of ours is covered."""
    parent = os.path.dirname(path)
    return not _is_above(path, hidden) and (os.path.lexists(path) or (parent != "/" and os.path.isdir(parent)))


def _is_above(path: str, hidden: str) -> bool:
    return f"{hidden}/".startswith(f"{path}/")
