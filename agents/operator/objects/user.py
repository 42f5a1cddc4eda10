"""Whose uid a container of the user's runs by: what is prepared for its ssh is prepared by that uid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.job.model import Passwd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agents.job.model import Job
    from agents.operator.settings import PodSettings

Body = dict[str, Any]

ROOT = 0
_FIRST_ARBITRARY = 10_000  # no image has a user by this uid: useradd gives out less than 10000 by itself


@dataclass(frozen=True, slots=True)
class User:
    """A container's user. uid None: the platform assigns one, or the image names it."""

    uid: int | None
    gid: int | None = None
    is_named: bool = False  # by the template; a uid that is not is assumed

    @property
    def known_by(self) -> str:
        """How well the uid is known, as `sshd_bootstrap` calls it."""
        if self.uid is None:
            return "unknown"
        return "named" if self.is_named else "assumed"


def user(container: Body, spec: Body, settings: PodSettings) -> User:
    """Return the user of a container in a pod: the template's, else root, unless that may not be."""
    own, pod = container.get("securityContext", {}), spec.get("securityContext", {})
    gid = _number(own, "runAsGroup")  # a pod's holds for our containers by itself
    for context in (own, pod):
        uid = _number(context, "runAsUser")
        if uid is not None:
            return User(uid, gid, is_named=True)
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is True or settings.run_as_user is None:
        return User(None, gid)
    return User(ROOT, gid)


def has_generated_passwd(job: Job, whose: User, settings: PodSettings) -> bool:
    """Return whether /etc/passwd is made for a container: without an entry neither ssh nor sshd runs."""
    if job.ssh.passwd is not Passwd.AUTO:
        return job.ssh.passwd is Passwd.GENERATED
    if whose.uid is None:
        return settings.run_as_user is None
    return whose.uid >= _FIRST_ARBITRARY


def _number(context: Mapping[str, Any], key: str) -> int | None:
    value = context.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
