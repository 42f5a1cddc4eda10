"""Under kubeflow's own operators, unmodified: our image as their delivery image, and nothing else changed.

Their Role grants `create` on pods/exec, and not `get`; their kubexec.sh calls `/opt/kube/kubectl exec`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import pods as of
from tests.cluster.operators.mpijob import DELIVERY, KUBECTL, OURS_WITH_KUBECTL, MpiJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.submitted import Submitted
    from tests.cluster.operators.operator import Operator

    Submit = Callable[[MpiJob], Submitted]

# Their users' containers are root, and say nothing of it.
pytestmark = [pytest.mark.pod_security("baseline"), pytest.mark.timeout(600)]


def test_an_example_of_theirs_runs(operator: Operator, submit: Submit) -> None:
    running = submit(MpiJob(operator.example, "openmpi4", "pi"))
    assert running.verdict() == "Succeeded", running.output
    assert running.ranks() == dict(enumerate(running.job.workers))
    role = running.namespace.get("Role", running.launcher, "rbac.authorization.k8s.io/v1")
    assert [rule["verbs"] for rule in role["rules"] if rule["resources"] == ["pods/exec"]] == [["create"]]


def test_switching_back_takes_the_flag_alone(operator: Operator, submit: Submit) -> None:
    operator.use(KUBECTL)
    job = MpiJob(operator.example, "openmpi4", "pi")
    # Nothing waits for the workers then: what their users do about that is to have the launcher tried again.
    job.body["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "OnFailure"
    running = submit(job)
    assert running.verdict() == "Succeeded", running.output
    assert running.ranks() == dict(enumerate(running.job.workers))
    assert running.namespace.logs(running.launcher, DELIVERY) == ""


def test_any_user_may_run_it(operator: Operator, submit: Submit) -> None:
    running = submit(MpiJob(operator.example, "openmpi4", "pi").run_as(12345))
    assert running.verdict() == "Succeeded", running.output
    assert running.ranks() == dict(enumerate(running.job.workers))


@pytest.mark.parametrize("main_container", [None, "second"])
def test_the_right_container_of_several_is_used(operator: Operator, submit: Submit, main_container: str | None) -> None:
    job = MpiJob(operator.example, "openmpi4", "sh", "-c", "echo in $WHERE")
    first = job.worker["containers"][0]
    job.worker["containers"].append({**first, "name": "second", "command": ["sleep", "365d"]})
    # Theirs is mounted in the first container alone, and Open MPI's daemon wants to see its agent there, too.
    job.worker["volumes"] = [{"name": "agent", "configMap": {"name": f"{job.name}-config", "defaultMode": 0o555}}]
    job.worker["containers"][1]["volumeMounts"] = [{"name": "agent", "mountPath": "/etc/mpi"}]
    for container in job.worker["containers"]:
        container["env"] = [{"name": "WHERE", "value": container["name"]}]
    if main_container:
        job.body["spec"]["mainContainer"] = main_container
    running = submit(job)
    assert running.verdict() == "Succeeded", running.output
    assert running.output.count(f"in {main_container or first['name']}\n") == 2


def test_a_launcher_that_is_started_again_in_place_begins_anew(operator: Operator, submit: Submit) -> None:
    job = MpiJob(operator.example, "openmpi4", "pi")
    again = '"$@" && { [ -e /opt/kube/tried ] || { touch /opt/kube/tried; exit 1; }; }'
    job.command("sh", "-c", again, "sh", *job.main["command"])
    job.body["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "OnFailure"
    running = submit(job)
    assert running.verdict() == "Succeeded", running.output
    assert of.restarts(running.namespace.get("Pod", running.launcher), job.main["name"]) == 1
    assert running.ranks() == dict(enumerate(running.job.workers))


def test_kubectl_itself_comes_with_the_larger_image(operator: Operator, submit: Submit) -> None:
    operator.use(OURS_WITH_KUBECTL)
    job = MpiJob(operator.example, "openmpi4", "pi")
    both = '/opt/kube/kubectl get pods --output name && exec "$@"'
    running = submit(job.command("sh", "-c", both, "sh", *job.main["command"]))
    assert running.verdict() == "Succeeded", running.output
    assert f"pod/{job.workers[0]}\n" in running.output
    assert running.ranks() == dict(enumerate(running.job.workers))
