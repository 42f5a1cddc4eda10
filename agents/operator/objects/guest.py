"""What our containers have in common, in a pod that is the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.operator.objects import names

if TYPE_CHECKING:
    from agents.operator.objects.user import User
    from agents.operator.settings import PodSettings

Body = dict[str, Any]

_IMAGE_USER = 65532  # of our image


def container(name: str, settings: PodSettings, spec: Body, whose: User | None = None) -> Body:
    """Return what each has: nothing that Pod Security's level *restricted* would refuse, unless the user is root.

    `whose`: the user whose files it makes; without one it is ours.
    """
    taken = [one.get("name") for key in ("initContainers", "containers") for one in spec.get(key, [])]
    return {
        "name": names.free(name, taken),
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            **(_our_user(settings, spec) if whose is None else _their_user(whose)),
        },
    }


def let_in(settings: PodSettings, spec: Body, *ours: Body) -> None:
    """Put our containers behind the user's init containers, and our pull secrets beside the user's."""
    secrets = spec.get("imagePullSecrets", [])
    known = [one.get("name") for one in secrets]
    secrets = [*secrets, *({"name": name} for name in settings.image_pull_secrets if name not in known)]
    if secrets:
        spec["imagePullSecrets"] = secrets
    spec["initContainers"] = [*spec.get("initContainers", []), *ours]


def _our_user(settings: PodSettings, spec: Body) -> Body:
    uid = settings.run_as_user
    if uid is None and spec.get("securityContext", {}).get("runAsUser") == 0:
        uid = _IMAGE_USER  # the platform assigns none, or the user's pod could not be root's
    return {"runAsNonRoot": True} if uid is None else {"runAsNonRoot": True, "runAsUser": uid}


def _their_user(whose: User) -> Body:
    context: Body = {"runAsNonRoot": whose.uid != 0}
    if whose.uid is not None:
        context["runAsUser"] = whose.uid
    if whose.gid is not None:
        context["runAsGroup"] = whose.gid
    return context
