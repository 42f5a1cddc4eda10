"""The files that sshd and ssh read: keywords of OpenSSH 8.4 to 10, and /etc/passwd and /etc/group. Pure.

ssh refuses to run as a uid without a name, and sshd accepts no login for one. The image's own passwd can't be seen from
here, so the generated one has the user and what OpenSSH itself needs, and nothing more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from sshd_bootstrap import paths
from sshd_bootstrap.settings import HostKeys, Settings

ALL_HOSTS = ("*",)


def sshd_config(settings: Settings) -> str:
    """Return our configuration of sshd. UsePAM is left to sshd-start, which sees the image's sshd."""
    run = settings.run_path
    return f"""\
# sshd of an MPI job's worker.
Port {settings.port}
HostKey "{run}/{paths.HOST_KEY}"
PidFile "{run}/{paths.PID_FILE}"
LogLevel INFO

# The job's key, and nothing else.
AuthorizedKeysFile "{run}/{paths.AUTHORIZED_KEYS}"
AuthenticationMethods publickey
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
ChallengeResponseAuthentication no
HostbasedAuthentication no
PermitEmptyPasswords no
PermitRootLogin prohibit-password
# The modes of these files are checked before; sshd would judge all folders above, too, such as an emptyDir at /run.
StrictModes no

AllowTcpForwarding no
AllowStreamLocalForwarding no
AllowAgentForwarding no
X11Forwarding no
PermitTunnel no
GatewayPorts no
PermitUserEnvironment no
PermitUserRC no

# A launcher may start thousands of ranks' daemons at once.
MaxStartups 4096
MaxSessions 4096
LoginGraceTime 120
UseDNS no
PrintMotd no
TCPKeepAlive yes
ClientAliveInterval 60
ClientAliveCountMax 5

# Sessions have the container's environment.
ForceCommand "{run}/{paths.HELPER}" --session
"""


def ssh_config(settings: Settings, port: int | None) -> str:
    """Return the file for ssh -F. `port` None: it is not known where the image's own sshd listens."""
    text = _ssh_config(settings, ALL_HOSTS, f"{settings.run_path}/{paths.IDENTITY}", port)
    # By -F the image's own is not read, and where sshd has the image's configuration, so has ssh.
    return text + "\nInclude /etc/ssh/ssh_config\n" if settings.has_own_config else text


def user_ssh_config(settings: Settings, port: int | None) -> str:
    """Return the user's ~/.ssh/config, for keys that are mounted there."""
    return _ssh_config(settings, settings.job_hosts, f"{settings.mount_path}/id_rsa", port)


def ports_of(ports: Mapping[str, int]) -> str:
    """Return what precedes either, for hosts with another port: ssh takes the first value that it finds."""
    return "".join(f"Host {' '.join(_names(host))}\n    Port {port}\n\n" for host, port in ports.items())


def known_hosts(settings: Settings, hosts: tuple[str, ...], public: str) -> str:
    """Return what knows these hosts by the job's key; nothing where each image's sshd has keys of its own."""
    return f"{','.join(hosts)} {public}\n" if settings.host_keys is HostKeys.JOB else ""


def _names(host: str) -> list[str]:
    """Return the patterns of a host: launchers cut DNS names at their first dot, or make them longer."""
    label = host.partition(".")[0]
    return [host] if ":" in host or label.isdigit() else [host, label, f"{label}.*"]


def _ssh_config(settings: Settings, hosts: tuple[str, ...], identity: str, port: int | None) -> str:
    checking = "yes" if settings.host_keys is HostKeys.JOB else "accept-new"
    own_port = f"    Port {port}\n" if port is not None else ""
    return f"""\
# ssh from pod to pod of an MPI job.
Host {" ".join(hosts)}
{own_port}    IdentityFile "{identity}"
    IdentitiesOnly yes
    PreferredAuthentications publickey
    BatchMode yes
    UserKnownHostsFile "{settings.run_path}/{paths.KNOWN_HOSTS}"
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking {checking}
    HashKnownHosts no
    CheckHostIP no
    UpdateHostKeys no
    ConnectionAttempts 10
    ConnectTimeout 20
    ServerAliveInterval 60
    ServerAliveCountMax 5
    ForwardAgent no
    ForwardX11 no
    LogLevel ERROR
"""


USER = "mpiuser"  # as in mpi-operator's images
_NOBODY = 65534
_SSHD = 100
_SHELL = "/bin/sh"  # the only one that an image is likely to have
_NONE = "/usr/sbin/nologin"


def home(mount_path: str, uid: int) -> str:
    """Return the folder that has the keys in .ssh, if the uid may enter that, as only root may enter /root."""
    folder, name = os.path.split(mount_path)
    is_home = name == ".ssh" and folder not in ("", "/", "/root")
    return "/root" if uid == 0 else folder if is_home else "/tmp"  # noqa: S108 (every image has it)


def passwd(uid: int, gid: int, mount_path: str) -> str:
    """Return the lines of /etc/passwd. `*`: no password, and no account that is locked either."""
    lines = [
        f"root:*:0:0:root:/root:{_SHELL}",
        f"sshd:*:{_SSHD}:{_NOBODY}:privilege separation:/run/sshd:{_NONE}",
        f"nobody:*:{_NOBODY}:{_NOBODY}:nobody:/nonexistent:{_NONE}",
    ]
    if uid != 0:  # first: a uid that has two names has the first
        lines.insert(0, f"{USER}:*:{uid}:{gid}:the job's user:{home(mount_path, uid)}:{_SHELL}")
    return "".join(f"{line}\n" for line in lines)


def group(gid: int) -> str:
    """Return the lines of /etc/group; sshd gives terminals to the group tty."""
    lines = ["root:*:0:", "tty:*:5:", f"nogroup:*:{_NOBODY}:"]
    if gid not in (0, 5, _NOBODY):
        lines.insert(0, f"{USER}:*:{gid}:")
    return "".join(f"{line}\n" for line in lines)
