"""What a job says of its ssh: fields of `spec.ssh`, and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.job.model import Dialect, KeyType, Passwd, Ssh

if TYPE_CHECKING:
    from agents.job.settings import Settings

_NAMES = {"port": "sshPort", "keyType": "sshKeyType", "passwd": "sshPasswd"}


def read_ssh(settings: Settings, dialect: Dialect) -> Ssh:
    """Return the settings; where keys are mounted stands in the spec itself in kubeflow's dialects."""
    ssh = settings.child("ssh", _NAMES)
    known = Ssh()
    return Ssh(
        mount_path=(ssh if dialect is Dialect.T9K else settings).text("sshAuthMountPath") or known.mount_path,
        sshd_path=ssh.text("sshdPath") or known.sshd_path,
        port=ssh.number("port", least=1, most=65535),
        key_type=ssh.choice("keyType", KeyType) or known.key_type,
        passwd=ssh.choice("passwd", Passwd) or known.passwd,
    )
