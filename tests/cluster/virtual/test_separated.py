"""Programs in a sibling container, by mpi-wrap and mpi-runner under a real prterun; the pod is written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.images import image

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Namespace

FOLDER = "/run/mpi-app"
APPLICATIONS = ("mpi", "mpi4", "openmpi4", "openmpi5")
# docs/separated.md, Compatibility
DAEMON = "OMPI_MCA_orte_local_daemon_uri=0.0;tcp://127.0.0.1:1"


def container(name: str, of: str, command: list[str], env: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "image": image(of),
        "command": command,
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "app", "mountPath": FOLDER}],
    }


@pytest.fixture(scope="module")
def pod(new_namespace: Callable[[str], Namespace]) -> Iterator[Namespace]:
    """A pod with the runtime, and one container for each application image."""
    namespace = new_namespace("restricted")
    nowhere = {"MPI_AGENT_WAIT": "false", "MPI_AGENT_HOSTFILE": "/dev/null", "TARGET_DIR": FOLDER}
    runtime = {"PRTE_MCA_prte_tmpdir_base": FOLDER, "MPI_WRAP_FOLDER": FOLDER}
    sibling = [f"{FOLDER}/mpi-runner", "--socket"]
    user = {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000}
    spec = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {**user, "seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [container("tools", "mpi-agents", ["mpi-delivery", "mpi-runner", "mpi-wrap"], nowhere)],
        "containers": [
            container("runtime", "runtime", ["sleep", "infinity"], runtime),
            *(container(name, name, [*sibling, f"{FOLDER}/{name}.sock"], {}) for name in APPLICATIONS),
        ],
        "volumes": [{"name": "app", "emptyDir": {}}],
    }
    namespace.apply([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "node"}, "spec": spec}])
    namespace.wait_ready(["node"])
    yield namespace
    namespace.delete("Namespace", namespace.name)


@pytest.mark.parametrize("name", APPLICATIONS)
def test_ranks_in_a_sibling_find_each_other(pod: Namespace, name: str) -> None:
    launch = ["env", DAEMON, "prterun", "--personality", "ompi", "-n", "2"]
    done = pod.exec_in("node", [*launch, f"{FOLDER}/mpi-wrap", "--container", name, "pi", "1"], "runtime")
    assert done.code == 0, done
    assert "rank 0 of 2 on node" in done.output
    assert "rank 1 of 2 on node" in done.output
