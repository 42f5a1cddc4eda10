"""Which files and folders the memory volume has, with which modes. Pure.

OpenSSH refuses a key that others may read only where the key is the process's own: where the files' owner is the user's
uid, they are private, and else, like kubeflow's, readable by all in this pod.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sshd_bootstrap import configs, paths
from sshd_bootstrap.settings import Passwd, Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sshd_bootstrap.keys import Pair
    from sshd_bootstrap.settings import Settings


@dataclass(frozen=True, slots=True)
class Folder:
    """`path` is relative to the volume."""

    path: str
    mode: int


@dataclass(frozen=True, slots=True, repr=False)
class File:
    """`path` is relative to the volume. `is_kept`: one that is there, and has grown, stays."""

    path: str
    content: bytes
    mode: int
    is_kept: bool = False


def folders(settings: Settings) -> list[Folder]:
    """Return what the volume's subPaths are. Where the user is another uid, it must be able to write to run/."""
    return [
        Folder(paths.AUTH_FOLDER, 0o700 if settings.is_owner else 0o755),
        Folder(paths.RUN_FOLDER, 0o755 if settings.is_owner else 0o1777),
        Folder(paths.EMPTY_FOLDER, 0o755),
    ]


def files(settings: Settings, pair: Pair, helper: bytes) -> list[File]:
    """Return what is written, in order: the host key is last. `helper` is the program sshd-start."""
    secret = 0o600 if settings.is_owner else 0o644
    found = [*_auth(settings, pair, secret), *_ssh(settings, pair, secret), *without_keys(settings, helper)]
    if settings.role is Role.WORKER:
        found += [
            File(_run(paths.SSHD_CONFIG), configs.sshd_config(settings).encode(), 0o644),
            File(_run(paths.AUTHORIZED_KEYS), configs.authorized_keys(pair.public).encode(), 0o644),
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
    if settings.has_helper:  # in a launcher the last one, by which delivery beside it knows that all is there
        found.append(File(_run(paths.HELPER), helper, 0o755))
    return found


def ssh_configs(settings: Settings, ports: Mapping[str, int]) -> list[File]:
    """Return the files that name the ports, by host; none: they are not known yet, unless our configuration says so."""
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
    known = configs.user_known_hosts(settings, pair.public).encode()
    return [
        File(f"{paths.AUTH_FOLDER}/id_rsa", pair.private, secret),
        File(f"{paths.AUTH_FOLDER}/id_rsa.pub", public, 0o644),
        File(f"{paths.AUTH_FOLDER}/authorized_keys", public, 0o644),
        File(f"{paths.AUTH_FOLDER}/known_hosts", known, 0o644),
    ]


def _ssh(settings: Settings, pair: Pair, secret: int) -> list[File]:
    known = configs.known_hosts(settings, pair.public).encode()
    return [
        File(_run(paths.IDENTITY), pair.private, secret),
        # Without the job's key ssh itself writes down whom it met.
        File(_run(paths.KNOWN_HOSTS), known, 0o644 if known or settings.is_owner else 0o666, is_kept=not known),
        # Those that name the ports that were found stay.
        *(replace(file, is_kept=True) for file in ssh_configs(settings, {})),
    ]


def _run(name: str) -> str:
    return f"{paths.RUN_FOLDER}/{name}"
