"""An sshd that was given capabilities in its image, as kubeflow's was, in containers that may not have them."""

from __future__ import annotations

import os
import shutil
import struct
from typing import TYPE_CHECKING

import pytest
from ssh_pods import DEFAULT, PATIENCE_S, RUN, Pods, helpers, needs_pods, pods
from ssh_server import SSHD
from test_sshd_sessions import HERE

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["helpers", "pods"]
pytestmark = needs_pods

NET_BIND_SERVICE = 10  # linux/capability.h
ANY_UID = {"MPI_SSH_PASSWD": "generated", "MPI_SSH_USER": "unknown"}


@pytest.fixture
def image(tmp_path: Path) -> dict[str, str]:
    """The mount of an image's sshd that may take any port: mpi-operator v0.8.2, build/base/Dockerfile."""
    tmp_path.chmod(0o755)
    set_capabilities(shutil.copy(SSHD, tmp_path / "sshd"), NET_BIND_SERVICE)
    return {"/usr/sbin": str(tmp_path)}


def set_capabilities(path: str | Path, *bits: int) -> None:
    """Do as `setcap …=+eip`: revision 2, effective; permitted and inheritable, and the upper half of both."""
    given = sum(1 << bit for bit in bits)
    os.setxattr(path, "security.capability", struct.pack("<5I", 0x02000001, given, given, 0, 0))


@pytest.mark.parametrize("prefix", [[], ["setpriv", "--no-new-privs"]], ids=["may gain", "may not gain"])
@pytest.mark.parametrize(
    ("uid", "capabilities"),
    [(123456, "-all"), (0, "-all,+setuid,+setgid,+sys_chroot")],
    ids=["any uid", "root"],
)
def test_it_can_not_be_executed_without_them(
    uid: int, capabilities: str, prefix: list[str], image: dict[str, str], pods: Pods
) -> None:
    pod = pods.new(uid=uid, variables=ANY_UID, capabilities=capabilities, mounts=image)
    process = pod.spawn(*prefix, f"{RUN}/sshd-start", *DEFAULT)
    assert process.wait(PATIENCE_S) == 43
    assert pod.said() == (
        "sshd-start: /usr/sbin/sshd has capabilities of its own (setcap) that this container may not have: "
        "NET_BIND_SERVICE; add them to securityContext.capabilities in the template, or take them from the file in "
        "the image (setcap -r /usr/sbin/sshd)\n"
    )


def test_a_capability_that_has_no_name_here(image: dict[str, str], pods: Pods) -> None:
    set_capabilities(f"{image['/usr/sbin']}/sshd", NET_BIND_SERVICE, 13)
    code, line = pods.new(uid=123456, variables=ANY_UID, capabilities="-all", mounts=image).refusal()
    assert code == 43
    assert "may not have: NET_BIND_SERVICE number 13; add" in line


def test_it_runs_where_it_may_have_them(image: dict[str, str], pods: Pods) -> None:
    pod = pods.new(uid=123456, variables=ANY_UID, capabilities="-all,+net_bind_service", mounts=image)
    pod.serve()
    assert pod.ssh(HERE, "echo there").stdout == b"there\n", pod.said()


def test_another_fault_is_not_taken_for_it(image: dict[str, str], pods: Pods) -> None:
    pod = pods.new(uid=123456, variables=ANY_UID, capabilities="-all,+net_bind_service", mounts=image)
    code, line = pod.refusal(SSHD, "-D", "-e", "-f", "/no/such/config")
    assert code == 44
    assert "/no/such/config" in line
