"""Which files and folders the memory volume has, with which modes. Pure.

OpenSSH refuses a key that others may read only where the key is the process's own: where the files' owner is the user's
uid, they are private, and else, like kubeflow's, readable by all in this pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sshd_bootstrap import configs, paths
from sshd_bootstrap.keys import Pair
from sshd_bootstrap.settings import Passwd, Role, Settings


@dataclass(frozen=True, slots=True, repr=False)
class File:
    """`path` is relative to the volume. `is_kept`: an existing one stays, as it may have grown."""

    path: str
    content: bytes
    mode: int
    is_kept: bool = False


def folders(settings: Settings) -> list[tuple[str, int]]:
    """Return the volume's subPaths and their modes. If the user has another uid, it must be able to write to run/."""
    return [
        (paths.AUTH_FOLDER, 0o700 if settings.is_owner else 0o755),
        (paths.RUN_FOLDER, 0o755 if settings.is_owner else 0o1777),
        (paths.EMPTY_FOLDER, 0o755),
    ]


def files(settings: Settings, pair: Pair, helper: bytes) -> list[File]:
    """Return what is written, in order: the host key is last. `helper` is the program sshd-start."""
    secret = 0o600 if settings.is_owner else 0o644
    found = [*_auth(settings, pair, secret), *_ssh(settings, pair, secret), *without_keys(settings, helper)]
    if settings.role is Role.WORKER:
        found += [
            File(_run(paths.SSHD_CONFIG), configs.sshd_config(settings).encode(), 0o644),
            File(_run(paths.AUTHORIZED_KEYS), f"{pair.public}\n".encode(), 0o644),
            File(_run(paths.HOST_KEY), pair.private, secret),
        ]
    return found


def without_keys(settings: Settings, helper: bytes) -> list[File]:
    """Return the files that the user's container can't start without."""
    found = []
    if settings.passwd is Passwd.GENERATED:
        found += [
            File(paths.PASSWD, configs.passwd(settings.uid, settings.gid, settings.mount_path).encode(), 0o644),
            File(paths.GROUP, configs.group(settings.gid).encode(), 0o644),
        ]
    if settings.has_helper:  # in a launcher it is last: by it delivery, in its sidecar, knows that all files exist
        found.append(File(_run(paths.HELPER), helper, 0o755))
    return found


def ssh_configs(settings: Settings, ports: Mapping[str, int]) -> list[File]:
    """Return the files that name the ports, by host; {}: not known yet, except from our configuration."""
    counted = list(ports.values())
    port = max(counted, key=counted.count) if counted else None if settings.has_own_config else settings.port
    others = configs.ports_of({host: own for host, own in ports.items() if own != port})
    found = [File(_run(paths.SSH_CONFIG), (others + configs.ssh_config(settings, port)).encode(), 0o644)]
    if settings.is_owner or settings.uid == 0:  # ssh refuses a ~/.ssh/config that is neither the user's nor root's
        user = (others + configs.user_ssh_config(settings, port)).encode()
        found.append(File(f"{paths.AUTH_FOLDER}/config", user, 0o644))
    return found


def _auth(settings: Settings, pair: Pair, secret: int) -> list[File]:
    """Return the user's ~/.ssh, by kubeflow's names."""
    public = f"{pair.public}\n".encode()
    known = configs.known_hosts(settings, settings.job_hosts, pair.public).encode()
    return [
        File(f"{paths.AUTH_FOLDER}/id_rsa", pair.private, secret),
        File(f"{paths.AUTH_FOLDER}/id_rsa.pub", public, 0o644),
        File(f"{paths.AUTH_FOLDER}/authorized_keys", public, 0o644),
        File(f"{paths.AUTH_FOLDER}/known_hosts", known, 0o644),
    ]


def _ssh(settings: Settings, pair: Pair, secret: int) -> list[File]:
    known = configs.known_hosts(settings, configs.ALL_HOSTS, pair.public).encode()
    return [
        # Without the job's key ssh itself records the hosts that it connected to.
        File(_run(paths.KNOWN_HOSTS), known, 0o644 if known or settings.is_owner else 0o666, is_kept=not known),
        File(_run(paths.IDENTITY), pair.private, secret),  # last: a rotation compares it
        # Once these files name the ports that were found, they stay.
        *(replace(file, is_kept=True) for file in ssh_configs(settings, {})),
    ]


def _run(name: str) -> str:
    return f"{paths.RUN_FOLDER}/{name}"
