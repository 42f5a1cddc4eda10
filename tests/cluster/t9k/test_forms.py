"""What else a T9k job may be: by exec, beside kubeflow's, or wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kubernetes.client.exceptions import ApiException

from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.t9k.t9kjob import T9kJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.submitted import Submitted
    from tests.cluster.t9k.running import Running

    Run = Callable[[T9kJob], Running]

pytestmark = pytest.mark.pod_security("baseline")


def test_no_sshd_is_needed_by_exec(run: Run) -> None:
    job = T9kJob("pi", example="openmpi4")
    job.spec["transport"] = "exec"
    running = run(job)
    assert running.end() == "Succeeded", running.output
    assert running.ranks() == dict(enumerate(running.job.workers))


def test_a_job_that_lost_ranks_has_failed(run: Run) -> None:
    """Open MPI 5's mpirun exits with 0 all the same, if it hears of the loss before its agent does."""
    job = T9kJob("sh", "-c", "echo waiting; exec sleep 3600", example="openmpi5")
    job.spec["transport"] = "exec"
    job.worker["extraMPIArgs"] = ["-N", "1", "--bind-to", "none", "--allow-run-as-root"]
    running = run(job)
    running.until_output("waiting", 2)
    running.namespace.delete("Pod", "pi-worker-1", grace_s=1)
    assert running.end() == "Failed", running.output


def test_a_kubeflow_job_of_the_same_name_leaves_it_alone(run: Run, submit: Callable[[MpiJob], Submitted]) -> None:
    theirs = run(T9kJob("pi", "3600"))
    theirs.until_output("rank 1 of 2")
    theirs.until_phase("Running")
    ours = submit(MpiJob("v2beta1"))
    assert "pi-" in ours.until_event("ErrResourceExists")
    assert theirs.status()["phase"] == "Running"
    assert not [one for one in ours.objects() if one.startswith("Pod/")]


def test_ranks_have_no_container_to_run_in(run: Run) -> None:
    job = T9kJob("pi")
    job.main["name"] = "trainer"
    running = run(job)
    status = running.until(lambda status: status.get("conditions"), "says what is wrong")
    assert any("mpi-worker" in one["message"] and "trainer" in one["message"] for one in status["conditions"]), status
    running.until_event("ValidationError")


def test_nobody_debugs_what_is_paused(run: Run) -> None:
    with pytest.raises(ApiException, match="debug and pause can't both be enabled"):
        run(T9kJob("pi").with_example("debug-2", "pause-2"))
