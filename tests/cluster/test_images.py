"""The images: what is delivered runs in any image, ours runs with no shell, and the examples as anyone."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from images import catalog, sbom
from tests.bills import names
from tests.cluster import pods as of
from tests.cluster.faults import of_the_command
from tests.cluster.images import image as full_name
from tests.cluster.images import needs_horovod
from tests.cluster.jobs import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.cluster.kube import Namespace
    from tests.cluster.running import Running

    Start = Callable[[Job], Running]

TOKEN = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
ANYONE = 1_234_567
# One command, with what a shell could get wrong in it, and a code of its own.
CALL = """/opt/kube/rshagent pi-worker-1 'echo "$HOSTNAME  says: $(cat)"; echo err >&2; exit 7'"""
CALLS = {
    "openmpi4": "mpirun --oversubscribe -n 2",
    "openmpi5": "mpirun --oversubscribe -n 2",
    "mpich": "mpiexec -n 2",
    "intel": "mpiexec -n 2",
}


def run(
    namespace: Namespace, image: str, command: Sequence[str] | None, environ: dict[str, str] | None = None
) -> tuple[int, str]:
    """Run a pod of one container, as anyone, on a read-only file system, to its end: its exit code and its output."""
    container: dict[str, Any] = {
        "name": "main",
        "image": full_name(image),
        "env": [{"name": name, "value": value} for name, value in (environ or {}).items()],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    if command:
        container["command"] = [*command]
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": ANYONE,
            "runAsGroup": ANYONE,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    namespace.apply([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec}])
    code = namespace.wait_exit("one", "main")
    return code, namespace.logs("one", "main")


def none_of(*programs: str) -> str:
    """Shell text that ends with 9 if one of these is on PATH."""
    return f"for program in {' '.join(programs)}; do if command -v $program; then exit 9; fi; done"


@pytest.mark.parametrize("image", ["bare-static", "bare-musl", "bare-glibc231", "openmpi5"])
def test_a_hub_of_its_own_runs_in_any_image(start: Start, image: str) -> None:
    """One static shell and nothing else, another C library, an older one: a real exec into a real worker."""
    job = Job("openmpi4").run_as(ANYONE, read_only=True)
    job.launcher["initContainers"] = [one for one in job.launcher["initContainers"] if one["name"] == "delivery"]
    job.launcher["initContainers"][0]["command"] = ["mpi-delivery", "client", "direct"]
    job.main["image"] = full_name(image)
    job.main["volumeMounts"].append(TOKEN)  # without a hub, the agent in the user's container needs it
    preloaded = "" if image != "bare-musl" else "/opt/kube/rshagent localhost /bin/is-preloaded && "
    job.command("/bin/sh", "-c", f"{preloaded}echo typed | {CALL}")
    running = start(job)
    assert running.end() == 7, running.output
    assert sorted(of_the_command(running.output).splitlines()) == ["err", "pi-worker-1  says: typed"]


def test_our_image_has_no_shell_and_needs_none(namespace: Namespace) -> None:
    code, log = run(namespace, "mpi-agents", ["/bin/sh", "-c", "true"])
    assert (code, log) == (128, "")
    message = of.state(namespace.get("Pod", "one"), "main")["terminated"]["message"]
    assert "no such file or directory" in message


def test_our_image_is_delivery_if_nothing_else_is_said(namespace: Namespace) -> None:
    code, log = run(namespace, "mpi-agents", None)
    assert code == 10
    assert log.startswith("mpi-delivery: the hostfile /etc/mpi/hostfile can't be read: No such file or directory")


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (["rshagent-hub", "--version"], 0, "rshagent-hub"),
        (["rshagent"], 255, "rshagent: no host given. Usage: AGENT"),
        (["mpi-delivery", "--version"], 0, "mpi-delivery, version"),
        (["mpi-operator", "--version"], 0, "mpi-operator, version"),
        (["mpi-worker", "--help"], 0, "usage: mpi-worker"),
        (["sshd-bootstrap"], 20, "sshd-bootstrap: /mpi-ssh in the volume of the ssh keys can't be written: it is"),
    ],
)
def test_our_image_has_each_role_on_its_path(namespace: Namespace, command: list[str], code: int, says: str) -> None:
    ended, log = run(namespace, "mpi-agents", command)
    assert (ended, log.startswith(says)) == (code, True), log


# What a package's metadata and Debian's status say in the image itself, whatever the bill of it says.
CONTENTS = """
import importlib.metadata, json, os
folder = "/var/lib/dpkg/status.d"
fields = (dict(line.split(": ", 1) for line in open(f"{folder}/{name}") if ": " in line) for name in os.listdir(folder))
print(json.dumps({
    "pypi": {one.name: one.version for one in importlib.metadata.distributions()},
    "deb": {one["Package"].strip(): one["Version"].strip() for one in fields},
}))
"""


def test_the_bill_of_our_image_is_what_is_in_it(namespace: Namespace) -> None:
    with open(
        sbom.path_of(full_name("mpi-agents"), os.path.join(catalog.ROOT, "build/sbom")), encoding="utf-8"
    ) as file:
        bill = json.load(file)["components"]
    code, log = run(namespace, "mpi-agents", ["python3", "-c", CONTENTS])
    there = json.loads(log)
    assert code == 0, log
    assert {kind: names(bill, kind) for kind in ("pypi", "deb")} == there
    assert {"click", "cryptography", "kubernetes", "mpi-agents"} <= there["pypi"].keys()
    assert {"libc6", "libssl3", "musl-dev", "python3.11-minimal"} <= there["deb"].keys()
    assert names(bill, "generic").keys() == {"rshagent", "rshagent-direct", "sshd-start"}


def test_the_variant_has_a_real_kubectl(namespace: Namespace) -> None:
    code, log = run(
        namespace,
        "mpi-agents-kubectl",
        ["/usr/local/lib/mpi-agents/kubectl", "version", "--client"],
        {"HOME": "/tmp"},
    )
    assert (code, log.startswith("Client Version: v1.")) == (0, True), log


@pytest.mark.parametrize("example", CALLS)
def test_an_example_has_its_programs_and_none_of_ours(namespace: Namespace, example: str) -> None:
    call = CALLS[example]
    code, log = run(
        namespace,
        example,
        ["/bin/sh", "-ec", f"{none_of('sshd', 'kubectl', 'python3', 'rshagent')}; {call} pi; {call} pingpong"],
        {"HOME": "/tmp", "I_MPI_PIN": "0"},
    )
    assert code == 0, log
    assert "pi is approximately 3.14159265" in log
    assert "pingpong: 1 pairs exchanged 4 x 1048576 bytes, all as sent" in log


@needs_horovod
@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_horovod_has_both_controllers(namespace: Namespace, controller: str) -> None:
    code, log = run(
        namespace,
        "horovod",
        [
            "/bin/sh",
            "-ec",
            f"{none_of('sshd', 'kubectl', 'rshagent')}; horovodrun --{controller} -np 2 python3 $TRAIN",
        ],
        {"HOME": "/tmp", "OMPI_MCA_rmaps_base_oversubscribe": "1", "TRAIN": "/usr/local/share/train.py"},
    )
    assert code == 0, log
    assert "2 ranks agree, losses fell" in log
