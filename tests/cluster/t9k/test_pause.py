"""A job that is paused in mid-job and resumed: ranks save what they have, and another command resumes from it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pytest
from kubernetes.client.exceptions import ApiException

from tests.cluster.t9k.t9kjob import T9kJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.release import Release
    from tests.cluster.t9k.running import Running

    Run = Callable[[T9kJob], Running]

# Saving takes a rank longer than mpirun leaves it by its own default.
TRAIN = """
file=/saved/$(hostname)
trap 'sleep 2; echo "step 7 of $(hostname)" >$file; exit 0' TERM
echo "begun on $(hostname)"
while :; do sleep 0.1; done
"""
RESUME = "cat /saved/*; rm /saved/$(hostname)"


def pausable(node: str, folder: str) -> T9kJob:
    """A job whose pods share a folder of the node, where ranks save."""
    job = T9kJob("/bin/sh", "-c", TRAIN)
    job.pod["nodeName"] = node
    job.pod["terminationGracePeriodSeconds"] = 20
    job.pod["volumes"] = [{"name": "saved", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}}]
    job.main["volumeMounts"] = [{"name": "saved", "mountPath": "/saved"}]
    command = ["mpirun", "--allow-run-as-root", "-N", "1", "/bin/sh", "-c", RESUME]
    job.spec["runMode"] = {"pause": {"enabled": False, "resumeSpecs": [{"type": "launcher", "command": command}]}}
    return job


@pytest.mark.alone
@pytest.mark.pod_security("privileged")
def test_ranks_save_when_paused_and_go_on_when_resumed(run: Run, release: Release) -> None:
    node = str(release.pods()[0]["spec"]["nodeName"])
    folder = f"/tmp/{release.namespace.name}-saved"
    running = run(pausable(node, folder))
    first, second = running.job.workers
    running.until_output("begun on", times=2)

    running.change({"spec": {"runMode": {"pause": {"enabled": True}}}})
    running.until_phase("Paused")
    running.namespace.until(lambda pods: not pods, "its pods are gone")
    for pod in release.pods():
        release.namespace.delete("Pod", pod["metadata"]["name"], grace_s=0)
    release.until_ready()
    assert not running.namespace.pods()

    running.change({"spec": {"runMode": {"pause": {"enabled": False}}}})
    assert running.end() == "Succeeded", running.output
    assert f"step 7 of {first}" in running.output
    assert f"step 7 of {second}" in running.output
    assert "begun" not in running.output
    with contextlib.suppress(OSError):
        os.rmdir(folder)  # where the node is this machine


def test_how_a_job_resumes_cannot_be_changed(run: Run) -> None:
    running = run(T9kJob("pi", workers=1).with_example("pause-1"))
    changed = {"spec": {"runMode": {"pause": {"resumeSpecs": [{"type": "worker", "command": ["/bin/other"]}]}}}}
    with pytest.raises(ApiException, match="resumeSpecs can't change"):
        running.change(changed)
    with pytest.raises(ApiException, match="debug and pause can't both be enabled"):
        running.change({"spec": {"runMode": {"debug": {"enabled": True}}}})
