"""Images that bring their own configuration of sshd, as mpi-operator's do, and keys that change while sshd runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ssh_pods import RUN, Pods, helpers, needs_pods, pods
from ssh_server import SSHD
from test_sshd_sessions import HERE, MPIUSER

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["helpers", "pods"]
pytestmark = needs_pods

# build/base/sshd_config and Dockerfile of mpi-operator v0.8.2
KUBEFLOWS_SSHD = "PidFile /home/mpiuser/sshd.pid\nHostKey /home/mpiuser/.ssh/id_rsa\nStrictModes no\nPort 2222\n"
KUBEFLOWS_SSH = "Host *\n    StrictHostKeyChecking no\n    Port 2222\n    UserKnownHostsFile /dev/null\n"
OWN = {"MPI_SSH_OWN_CONFIG": "true", "MPI_SSH_PORTS": "22 2222"}


def test_kubeflows_image_as_its_user(pods: Pods, tmp_path: Path) -> None:
    home, ssh = tmp_path / "home", tmp_path / "ssh_config"
    home.mkdir()
    (home / ".ssh").mkdir()
    (home / ".sshd_config").write_text(f"{KUBEFLOWS_SSHD}Match Address 10.0.0.0/8 LocalPort 2222\n    PermitTTY no\n")
    os.chown(home, 1000, 1000)
    ssh.write_text(KUBEFLOWS_SSH)
    pod = pods.new(
        uid=1000,
        variables={**OWN, "MPI_SSH_MOUNT_PATH": "/home/mpiuser/.ssh"},
        etc={"passwd": MPIUSER},
        mounts={"/home/mpiuser": str(home), "/etc/ssh/ssh_config": str(ssh)},
    )
    pod.serve(SSHD, "-De", "-f", "/home/mpiuser/.sshd_config")
    done = pod.ssh(HERE, "echo there")
    assert (done.stdout, done.stderr) == (b"there\n", b""), pod.said()
    assert pod.run("ssh", HERE, "echo there").stdout == b"there\n"


def test_the_images_own_sshd_as_root(pods: Pods) -> None:
    """`/usr/sbin/sshd -De`, kubeflow's default: the distribution's configuration, and the job's key for host key."""
    pod = pods.new(variables=OWN)
    pod.serve(SSHD, "-De")
    done = pod.ssh("-oStrictHostKeyChecking=yes", HERE, "echo there")
    assert (done.stdout, done.stderr) == (b"there\n", b""), pod.said()


def test_the_images_own_host_keys_are_kept_in_mind(pods: Pods) -> None:
    """Where a script starts sshd, what it shows first is taken, and afterwards nothing else."""
    pod = pods.new(variables={**OWN, "MPI_SSH_HOST_KEYS": "image"})
    sshd = pod.spawn("sh", "-c", f"{SSHD} -De -p 22 -h {RUN}/ssh_host_key")
    pod.wait_for("^Server listening on 0.0.0.0", sshd)
    for _ in range(2):
        assert pod.ssh(HERE, "echo there").stdout == b"there\n", pod.said()
    pod.prepare()  # what was learnt stays
    with open(f"{pod.volume}/run/known_hosts", encoding="ascii") as file:
        known = file.read()
    assert known.startswith(f"{HERE} ")
    other = pods.new()
    with open(f"{other.volume}/auth/id_rsa.pub", encoding="ascii") as public:
        replaced = f"{HERE} {public.read()}"
    with open(f"{pod.volume}/run/known_hosts", "w", encoding="ascii") as file:
        file.write(replaced)
    refused = pod.ssh(HERE, "echo there")
    assert refused.returncode == 255
    assert b"Host key verification failed" in refused.stderr
