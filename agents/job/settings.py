"""Settings that are both a field of the spec and an annotation. The annotation wins.

Annotations exist because another CRD, or a client that knows only kubeflow's fields, drops our fields.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from agents.job.fields import one_of
from agents.job.model import PREFIX, Dialect, Implementation, KeyType, Passwd, Problem, Ssh, Transport
from agents.job.template import container_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agents.job.fields import E, Fields
    from agents.job.model import Job

_HUMP = re.compile("(?=[A-Z])")


def annotation(key: str) -> str:
    """Return the annotation of a field: `mpi-agents/main-container` for `mainContainer`."""
    return PREFIX + _HUMP.sub("-", key).lower()


class Settings:
    """The settings of one job that are in one object of its spec.

    `names`: the names that annotations have instead of a field's own, as `sshPort` for `port` in `spec.ssh`.
    """

    def __init__(self, spec: Fields, annotations: Fields, names: Mapping[str, str] | None = None) -> None:
        self._spec, self._annotations, self._names = spec, annotations, names or {}

    def child(self, key: str, names: Mapping[str, str] | None = None) -> Settings:
        """Return the settings in the object at a key of the spec."""
        return Settings(self._spec.child(key), self._annotations, names)

    @property
    def fields(self) -> Fields:
        """The object that they are in: for what no annotation gives."""
        return self._spec

    @property
    def annotations(self) -> dict[str, str]:
        """The job's own annotations."""
        return {key: text for key, text in self._annotations.value.items() if isinstance(text, str)}

    def path(self, key: str) -> str:
        """Return where a setting is given."""
        return self._annotations.at(self._annotation(key)) if self.is_annotated(key) else self._spec.at(key)

    def text(self, key: str) -> str:
        """Return a text, "" if neither gives one."""
        return self._annotations.text(self._annotation(key)) or self._spec.text(key)

    def choice(self, key: str, choices: Iterable[E], *, otherwise: E | None = None) -> E | None:
        """Return one of these. `otherwise`: what any other name means in the field; an annotation must be right."""
        if self.is_annotated(key):
            return self._annotations.choice(self._annotation(key), choices)
        return self._spec.choice(key, choices, otherwise=otherwise)

    def choices(self, key: str, choices: Iterable[E]) -> tuple[E, ...] | None:
        """Return a list of these, None if neither gives one. An annotation has its words parted by commas."""
        known = {str(one): one for one in choices}
        fields, name = self._spec, key
        if self.is_annotated(key):
            fields, name = self._annotations, self._annotation(key)
            given = fields.text(name).replace(",", " ").split()
        elif fields.value.get(key) is None:
            return None
        else:
            given = fields.texts(key)
        for text in given:
            if text not in known:
                fields.add(f'must be {one_of(known)}, not "{text[:63]}"', name)
        return tuple(dict.fromkeys(known[text] for text in given if text in known))

    def flag(self, key: str) -> bool | None:
        """Return a boolean."""
        if not self.is_annotated(key):
            return self._spec.flag(key)
        text = self._annotations.text(self._annotation(key))
        if text not in {"", "true", "false"}:
            self._annotations.add(f'must be "true" or "false", not "{text[:63]}"', self._annotation(key))
        return text == "true"

    def number(self, key: str, *, least: int, most: int) -> int | None:
        """Return a whole number."""
        if not self.is_annotated(key):
            return self._spec.number(key, least=least, most=most)
        name = self._annotation(key)
        text = self._annotations.text(name)
        if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most:
            return int(text)
        if text:
            self._annotations.add(f'must be a whole number, {least} to {most}, not "{text[:63]}"', name)
        return None

    def is_annotated(self, key: str) -> bool:
        """Return whether the annotation gives it."""
        return bool(self._annotations.value.get(self._annotation(key)))

    def _annotation(self, key: str) -> str:
        return annotation(self._names.get(key, key))


def shared(job: Job) -> dict[str, str]:
    """Return the settings that all of a job's pods have to have in common, beside transport and dialect.

    A worker that was made by another one is no host for the launcher that runs: its sshd listens at another port, or
    knows another user, or ranks run in another container. By name, as their annotations would have them; "" for what is
    not given. The main container is named in any case: which is the first, another template says otherwise.
    """
    found: dict[str, str] = {}
    if job.dialect is not Dialect.T9K:  # which has none of these: the container's name is its template's
        found |= {
            "mainContainer": job.main_container or next(iter(container_names(job.worker.template)), ""),
            "mpiImplementation": str(job.implementation),
            "runLauncherAsWorker": str(job.launcher_is_worker).lower(),
        }
    if job.transport is Transport.SSH:
        found |= {
            "sshAuthMountPath": job.ssh.mount_path,
            "sshPasswd": str(job.ssh.passwd),
            "sshPort": str(job.ssh.port or ""),
        }
    return found


def with_shared(job: Job, given: Mapping[str, str]) -> Job:
    """Return the job with these shared settings in place of its own; ValueError if one has no value of its kind."""
    found = {**shared(job), **given}
    if job.dialect is not Dialect.T9K:
        job = replace(
            job,
            main_container=given.get("mainContainer", job.main_container),
            implementation=Implementation(found["mpiImplementation"]),
            launcher_is_worker=found["runLauncherAsWorker"] == "true",
        )
    if job.transport is Transport.SSH:
        passwd, port = Passwd(found["sshPasswd"]), int(found["sshPort"] or 0) or None
        job = replace(job, ssh=replace(job.ssh, mount_path=found["sshAuthMountPath"], passwd=passwd, port=port))
    return job


_NAMES = {"port": "sshPort", "keyType": "sshKeyType", "passwd": "sshPasswd"}  # of annotations
_NEVER = ':"%$\\'  # a mount path can't have the first, nor a quoted path in OpenSSH's configuration the others


def read_ssh(settings: Settings, dialect: Dialect) -> Ssh:
    """Return the settings; where keys are mounted stands in the spec itself in kubeflow's dialects."""
    ssh = settings.child("ssh", _NAMES)
    known = Ssh()
    return Ssh(
        mount_path=_path(ssh if dialect is Dialect.T9K else settings, "sshAuthMountPath", known.mount_path),
        sshd_path=_path(ssh, "sshdPath", known.sshd_path),
        port=ssh.number("port", least=1, most=65535),
        key_type=ssh.choice("keyType", KeyType) or known.key_type,
        passwd=ssh.choice("passwd", Passwd) or known.passwd,
    )


def _path(settings: Settings, key: str, otherwise: str) -> str:
    text = settings.text(key)
    if text and not (text.startswith("/") and text.strip("/") and text.isprintable() and not set(_NEVER) & set(text)):
        message = f"must be an absolute path without {' '.join(_NEVER)}"
        settings.fields.problems.append(Problem(settings.path(key), message))
    return text.rstrip("/") or otherwise
