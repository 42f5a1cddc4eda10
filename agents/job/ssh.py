"""Reads a job's settings of transport ssh."""

from __future__ import annotations

from agents.job.fields import Settings
from agents.job.model import KUBEFLOW, Dialect, KeyType, Passwd, Ssh

_SSH_NAMES = {"port": "sshPort", "keyType": "sshKeyType", "passwd": "sshPasswd"}  # of annotations
_NEVER = ':"%$\\'  # a mount path can't have the first, nor a quoted path in OpenSSH's configuration the others


def read_ssh(settings: Settings, dialect: Dialect) -> Ssh:
    """Return the settings; where keys are mounted stands in the spec itself in kubeflow's dialects."""
    ssh = settings.child("ssh", _SSH_NAMES)
    known = Ssh()
    return Ssh(
        mount_path=_path(settings if dialect in KUBEFLOW else ssh, "sshAuthMountPath", known.mount_path),
        sshd_path=_path(ssh, "sshdPath", known.sshd_path),
        port=ssh.number("port", least=1, most=65535),
        key_type=ssh.choice("keyType", KeyType) or known.key_type,
        passwd=ssh.choice("passwd", Passwd) or known.passwd,
    )


def _path(settings: Settings, key: str, otherwise: str) -> str:
    text = settings.text(key)
    if text and not (text.startswith("/") and text.strip("/") and text.isprintable() and not set(_NEVER) & set(text)):
        settings.add(f"must be an absolute path without {' '.join(_NEVER)}", key)
    return text.rstrip("/") or otherwise
