"""What is where: the folders of the memory volume, and where the user's container has them."""

from __future__ import annotations

KEYS = "/etc/mpi-ssh"  # the job's Secret, in our containers alone
VOLUME = "/mpi-ssh"  # the whole memory volume, in our containers alone
RUN = "/run/mpi-agents/ssh"  # its folder RUN_FOLDER, in the user's container
MOUNT = "/root/.ssh"  # its folder AUTH_FOLDER there, by default

AUTH_FOLDER = "auth"
RUN_FOLDER = "run"
EMPTY_FOLDER = "empty"
PASSWD = "passwd"  # noqa: S105 (a file's name)
GROUP = "group"

# in the Secret, as mpi-operator v0.8.2 names them
PRIVATE_KEY = "ssh-privatekey"
PUBLIC_KEY = "ssh-publickey"

# in RUN
SSHD_CONFIG = "sshd_config"
SSH_CONFIG = "ssh_config"
KNOWN_HOSTS = "known_hosts"
AUTHORIZED_KEYS = "authorized_keys"
HOST_KEY = "ssh_host_key"
IDENTITY = "identity"  # the same key, for ssh: a uid that may not enter /root can't reach MOUNT
HELPER = "sshd-start"
READY = "ready"  # the start gate: delivery writes "go", sshd-start replaces it by "taken", or asks by "again"
FAILED = "failed"  # instead of it: the exit code, and why the workers' sshds don't answer
PID_FILE = "sshd.pid"  # sshd writes it

TOOLS = "/usr/local/lib/mpi-agents"  # in our image: where HELPER is copied from
