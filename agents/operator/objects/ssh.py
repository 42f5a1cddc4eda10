"""What an ssh job's pods have beside the user's template: keys, what is prepared of them, and who prepares it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.job.model import WORKER
from agents.operator.objects import names, pod, sshd, user
from agents.operator.objects.sshd import Start

if TYPE_CHECKING:
    from agents.job.model import Job
    from agents.operator.objects.user import User
    from agents.operator.settings import PodSettings

Body = dict[str, Any]

_SIZE = "4Mi"  # of all that is prepared


class Ssh:
    """ssh in one pod: add it to the pod's spec, then let our containers in that prepare it."""

    def __init__(self, job: Job, role: str, settings: PodSettings, spec: Body) -> None:
        self._job, self._role, self._settings, self._spec = job, role, settings, spec
        self._main = pod.main_container(job, spec)
        self.user: User = user.user(self._main, spec, settings)
        self._has_passwd = user.has_generated_passwd(job, self.user, settings)
        self._keys = pod.add_volume(spec, names.SSH_KEYS_VOLUME, _keys(job))
        self._volume = pod.add_volume(spec, names.SSH_VOLUME, {"emptyDir": {"medium": "Memory", "sizeLimit": _SIZE}})

    def mount(self) -> None:
        """Mount what is prepared in the user's container: neither the Secret nor what is another container's."""
        self._mount("auth", self._job.ssh.mount_path, is_read_only=True)
        self._mount("run", names.SSH_RUN_PATH)
        if self._role == WORKER and self.user.uid == user.ROOT:
            self._mount("empty", names.SSH_EMPTY_PATH)
        if self._has_passwd:
            self._mount("passwd", "/etc/passwd", is_read_only=True)
            self._mount("group", "/etc/group", is_read_only=True)

    def let_prepare(self, container: Body) -> None:
        """Give one of our containers what it takes to prepare ssh.

        A sidecar's hook prepares it: no container behind it starts before.
        """
        if container.get("restartPolicy") == "Always":
            container["lifecycle"] = {"postStart": {"exec": {"command": ["sshd-bootstrap"]}}}
        container["env"] = [*container.get("env", []), *self._environment()]
        pod.mount(container, self._keys, names.SSH_KEYS_PATH, is_read_only=True)
        pod.mount(container, self._volume, names.SSH_PATH)

    def _mount(self, folder: str, path: str, *, is_read_only: bool = False) -> None:
        pod.mount(self._main, self._volume, path, folder=folder, is_read_only=is_read_only)

    def _environment(self) -> list[Body]:
        found = sshd.sshd(self._job)
        variables = {
            "MPI_SSH_ROLE": self._role,
            "MPI_SSH_KEYS": names.SSH_KEYS_PATH,
            "MPI_SSH_VOLUME": names.SSH_PATH,
            "MPI_SSH_MOUNT_PATH": self._job.ssh.mount_path,
            "MPI_SSH_RUN_PATH": names.SSH_RUN_PATH,
            "MPI_SSH_PORTS": " ".join(map(str, found.ports)),
            "MPI_SSH_USER": self.user.known_by,
            "MPI_SSH_PASSWD": "generated" if self._has_passwd else "image",
            "MPI_SSH_HOST_KEYS": "image" if found.start is Start.THEIRS else "job",
        }
        if found.start is not Start.OURS:
            variables["MPI_SSH_OWN_CONFIG"] = "true"
        return pod.variables(variables)


def _keys(job: Job) -> Body:
    return {"secret": {"secretName": job.secret_name, "defaultMode": 0o444}}
