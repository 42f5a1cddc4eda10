"""MPIJobs by ssh as users write them. Pure."""

from __future__ import annotations

from tests.cluster.images import image
from tests.cluster.operator.mpijob import MpiJob

# Open MPI asks for it, under both of its launchers' names.
ALLOW_ROOT = {f"{name}_ALLOW_RUN_AS_ROOT{more}": "1" for name in ("OMPI", "PRTE") for more in ("", "_CONFIRM")}
_UNPRIVILEGED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


class SshJob(MpiJob):
    """A small MPIJob that says nothing of users: it runs as root, and its workers run the default sshd."""

    def __init__(
        self, example: str = "openmpi4", version: str = "v2beta1", *, workers: int = 2, slots: int = 1
    ) -> None:
        """Take an example image that has sshd. It runs `pi`, a rank for each slot."""
        super().__init__(version, example, workers=workers, slots=slots)
        for pod in (self.launcher, self.worker):
            del pod["securityContext"]
            pod["containers"][0] |= {"image": image(f"{example}-ssh")}
            del pod["containers"][0]["securityContext"]
        del self.worker["containers"][0]["command"]
        self.spec["transport"] = "ssh"
        self.environ(ALLOW_ROOT)

    def run_as(self, uid: int, *, home: str = "/tmp") -> SshJob:
        """Another user in both roles, with its keys in this home folder."""
        for pod in (self.launcher, self.worker):
            pod["securityContext"] = {"runAsUser": uid}
        self.spec["sshAuthMountPath"] = f"{home}/.ssh"
        return self

    def restrict(self, *added: str) -> SshJob:
        """Ask for what a namespace that enforces *restricted* wants; keep these capabilities."""
        for pod in (self.launcher, self.worker):
            pod["securityContext"] |= {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
            context = {**_UNPRIVILEGED, "capabilities": {"drop": ["ALL"]} | ({"add": [*added]} if added else {})}
            pod["containers"][0]["securityContext"] = context
        return self

    def set(self, **fields: object) -> SshJob:
        """Set fields of its spec."""
        self.spec.update(fields)
        return self
