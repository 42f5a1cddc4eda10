"""What all injected containers have in common: image, resources, security context, and the user that they run as."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agents.job.json_object import Body, Object
from agents.job.model import Job, Passwd, Transport, WorkerAgent
from agents.operator.objects import names, pod, resources
from agents.operator.settings import PodSettings

_IMAGE_USER = 65532  # of our image


def container(name: str, settings: PodSettings, spec: Body, user: User | None = None) -> Body:
    """Return the common fields. They satisfy Pod Security's level *restricted*, unless the user is root.

    `user`: who owns the files that it makes; by default our image's user.
    """
    used = [*(str(one.get("name")) for one in pod.containers(spec)), *_referred(spec)]
    return {
        "name": names.unique(name, used),
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "resources": resources.of_injected(name, spec, settings),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            **(_our_user(settings, spec) if user is None else _user_fields(user)),
        },
    }


def inject(settings: PodSettings, spec: Body, *ours: Body) -> None:
    """Add our containers after the user's init containers, and our pull secrets to the user's."""
    _add_pull_secrets(settings, spec)
    spec["initContainers"] = [*spec.get("initContainers", []), *ours]


def add_image_volume(settings: PodSettings, spec: Body, image: str) -> str:
    """Add a volume with the files of one of our images, and our pull secrets; return its name."""
    _add_pull_secrets(settings, spec)
    source = {"reference": image, "pullPolicy": settings.image_pull_policy}
    return pod.add_volume(spec, names.IMAGE_VOLUME, {"image": source})


def _add_pull_secrets(settings: PodSettings, spec: Body) -> None:
    secrets = spec.get("imagePullSecrets", [])
    known = [one.get("name") for one in secrets]
    secrets = [*secrets, *({"name": name} for name in settings.image_pull_secrets if name not in known)]
    if secrets:
        spec["imagePullSecrets"] = secrets


def _referred(value: object) -> Iterator[str]:
    """Give the containers that a template refers to by name: one that it does not have stays missing."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        if key in ("containerName", "targetContainerName"):
            yield str(one)
        else:
            yield from _referred(one)


def _our_user(settings: PodSettings, spec: Body) -> Body:
    uid = settings.run_as_user
    if uid is None and spec.get("securityContext", {}).get("runAsUser") == 0:
        uid = _IMAGE_USER  # the platform assigns none, or the user's pod could not be root's
    return {"runAsNonRoot": True} if uid is None else {"runAsNonRoot": True, "runAsUser": uid}


def _user_fields(user: User) -> Body:
    context: Body = {"runAsNonRoot": user.uid != 0}
    if user.uid is not None:
        context["runAsUser"] = user.uid
    if user.gid is not None:
        context["runAsGroup"] = user.gid
    return context


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


def user_of(container: Body, spec: Body, settings: PodSettings) -> User:
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


def has_generated_passwd(job: Job, user: User, settings: PodSettings) -> bool:
    """Return whether /etc/passwd is made for a container: without an entry neither ssh nor sshd runs."""
    if job.ssh.passwd is not Passwd.AUTO:
        return job.ssh.passwd is Passwd.GENERATED
    if user.uid is None:
        return settings.run_as_user is None
    return user.uid >= _FIRST_ARBITRARY


def _number(context: Object, key: str) -> int | None:
    value = context.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def has_worker_agent(job: Job, settings: PodSettings) -> bool:
    """Return whether the workers have the agent: by the job's setting, or else for SSH by the operator's."""
    if job.worker_agent is not None:
        return job.worker_agent is not WorkerAgent.NONE
    return job.transport is Transport.SSH and settings.has_worker_agent
