"""/opt/kube/kubectl in the launcher: our client by default, the real one where the job asks for it; never a token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.ssh.sshjob import SshJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]

ANYONE = 1_234_567
NO_TOKEN = """
test ! -e /var/run/secrets/kubernetes.io/serviceaccount/token
"""
OURS = """
set -eu
kubectl=/opt/kube/kubectl
$kubectl get pods -o name
$kubectl get pods -o wide
$kubectl get pods -l nobody=has-it
$kubectl exec pi-worker-1 -- /bin/sh -c 'echo "in $(hostname)"'
printf 'through stdin\\n' | $kubectl exec -i pi-worker-0 -- cat
for call in 'exec pi-worker-0 -- sh -c "exit 3"' 'exec pi-launcher-x -- true' 'get pods -A' 'logs pi-worker-0'; do
    code=0; eval "$kubectl $call" || code=$?
    echo "exit code of $call: $code"
done
cat > /tmp/kubexec.sh <<'END'
#!/bin/sh
set -x
POD_NAME=$1
shift
/opt/kube/kubectl exec ${POD_NAME} --container mpi -- /bin/sh -c "$*"
END
chmod +x /tmp/kubexec.sh
for worker in pi-worker-0 pi-worker-1; do  # orted ends where it has no such file, and never uses it
    $kubectl exec -i $worker -- sh -c 'cat > /tmp/kubexec.sh && chmod +x /tmp/kubexec.sh' < /tmp/kubexec.sh
done
mpirun --mca plm_rsh_agent /tmp/kubexec.sh -n 2 pi
"""
REAL = """
set -eu
/opt/kube/kubectl version --client
! /opt/kube/kubectl --request-timeout=5s get pods
mpirun -n 2 pi
"""
THEIRS = """
set -eu
test "$(/opt/kube/kubectl)" = mine
"""
VERSIONS = ["v1", "v2beta1"]


@pytest.mark.parametrize("version", VERSIONS)
def test_by_default_it_is_our_client(submit: Submit, version: str) -> None:
    running = submit(MpiJob(version).command("/bin/sh", "-c", NO_TOKEN + OURS))
    assert running.verdict() == "Succeeded", running.output
    lines = [" ".join(line.split()) for line in running.output.splitlines()]
    assert [line for line in lines if line.startswith("pod/")] == ["pod/pi-worker-0", "pod/pi-worker-1"]
    assert "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES" in lines
    assert [line.split()[:4] for line in lines if " Running " in line] == [
        [f"pi-worker-{number}", "1/1", "Running", "0"] for number in range(2)
    ]
    assert f"No resources found in {running.namespace.name} namespace." in lines
    assert {"in pi-worker-1", "through stdin"} <= {*lines}
    assert [int(line.rpartition(" ")[2]) for line in lines if line.startswith("exit code")] == [3, 255, 1, 1]
    assert sum("spec.tools: [kubectl]" in line for line in lines) == 2
    assert sorted(running.ranks()) == [0, 1]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transport", ["exec", "ssh"])
def test_the_real_one_is_there_if_the_job_asks_for_it(submit: Submit, version: str, transport: str) -> None:
    job = MpiJob(version) if transport == "exec" else SshJob(version=version).run_as(ANYONE).restrict()
    job.command("/bin/sh", "-c", NO_TOKEN + REAL)
    if version == "v1":
        job.annotate(tools="kubectl")
    else:
        job.spec["tools"] = ["kubectl"]
    running = submit(job)
    assert running.verdict() == "Succeeded", running.output
    assert "Client Version: v" in running.output
    assert sorted(running.ranks()) == [0, 1]


def test_what_a_template_has_there_stays(submit: Submit) -> None:
    job = MpiJob("v1").command("/bin/sh", "-c", THEIRS)
    job.launcher["volumes"] = [{"name": "mine", "emptyDir": {}}]
    mine = [{"name": "mine", "mountPath": "/opt/kube"}]
    job.main["volumeMounts"] = mine
    text = "printf '#!/bin/sh\\necho mine\\n' > /opt/kube/kubectl && chmod 755 /opt/kube/kubectl"
    job.launcher["initContainers"] = [
        {**job.main, "name": "puts-it-there", "command": ["/bin/sh", "-c", text], "volumeMounts": mine, "env": []}
    ]
    running = submit(job)
    assert running.verdict() == "Succeeded", running.output
