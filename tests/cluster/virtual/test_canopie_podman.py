"""CANOPIE's four kustomizations with podman: the application in an image that each node pulls once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.virtual import canopie
from tests.cluster.virtual.device_plugin import device_plugin
from tests.cluster.virtual.registry import PULL, address, registry
from tests.cluster.virtual.test_canopie import NODES, VirtualCluster
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Namespace
    from tests.cluster.local.cluster import LocalCluster

pytestmark = [pytest.mark.needs_image("canopie-podman"), pytest.mark.slow]

WRAP = "/opt/hpc/local/bin/wrap-container.sh"
IMAGE = f"MPI_IMAGE={address('mpi')}"
PRTERUN = ["prterun", "--map-by", "ppr:1:node", "-x", "MPI_IMAGE"]
BY_NODE = ["env", IMAGE, *PRTERUN]
FAILURES = [
    (IMAGE, ["sh", "-c", "sleep 1; exit 3"], 3),
    (IMAGE, ["sh", "-c", "sleep 1; kill -KILL $$"], 137),
    (IMAGE, ["no-such-program"], 127),
    (f"MPI_IMAGE={address('none')}", ["init_finalize"], 255),
]
# TERM ends prterun, whose daemons kill mpi-wrap; what it ran on both nodes must be gone, and its container.
ABORT = f"""prterun --map-by ppr:1:node -x MPI_IMAGE {WRAP} sh -c 'echo up; exec tail -f /dev/null' >/tmp/out & job=$!
until [ "$(grep -c up /tmp/out)" = 2 ]; do sleep 0.1; done; cat /tmp/out; kill -TERM $job; wait $job"""
LEFT = "podman ps -aq; grep -lsx -e tail -e mpi-runner /proc/[0-9]*/comm; sleep 1"


@pytest.fixture(scope="module")
def mpi(local: LocalCluster) -> Iterator[str]:
    """The image `mpi`, in a registry; and /dev/fuse for pods that ask for it."""
    with registry("mpi"), device_plugin(canopie.DEVICE, "/dev/fuse"):
        yield address("mpi")


@pytest.mark.parametrize("podman", ["privileged", "unprivileged", "device"])
@pytest.mark.parametrize("transport", ["kubectl", "ssh"])
def test_an_image_is_pulled_once_per_node_and_runs_there(
    transport: str, podman: str, mpi: str, new_namespace: Callable[[str], Namespace]
) -> None:
    namespace = new_namespace("privileged" if podman == "privileged" else "baseline")
    cluster = VirtualCluster(namespace, transport, podman)
    pulled = cluster.run(*BY_NODE, *PULL.split(), mpi)
    assert len([line for line in pulled if len(line) == 64]) == len(NODES), pulled
    output = "\n".join(cluster.run(*BY_NODE, WRAP, "init_finalize"))
    assert "size=2 nodes=2 ppn=1" in output, output
    for env, program, code in FAILURES:
        failed = namespace.exec_in(cluster.login, ["env", env, *PRTERUN, WRAP, *program], "login")
        assert failed.code == code, failed
        assert "mpi-wrap: " in failed.errors or code in (3, 137), failed
    aborted = namespace.exec_in(cluster.login, ["env", IMAGE, "sh", "-c", ABORT], "login")
    assert aborted.code not in (0, None), aborted
    assert "up" in aborted.output
    until(lambda: cluster.run(*BY_NODE, "sh", "-c", LEFT) == [], "nothing is left on the nodes", 60)
    namespace.delete("Namespace", namespace.name)
