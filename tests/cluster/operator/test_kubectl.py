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
