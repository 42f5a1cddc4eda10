"""A job as a TrainJob of Kubeflow Trainer v2, and the TrainingRuntime that it refers to. Pure.

The runtime has both pod templates, as a TrainJob's own fields can't say what launcher and workers have of their own.
Facts: Trainer v2.3.0, pkg/runtime/framework/plugins/mpi and pkg/runtime/core/trainingruntime.go. The container that
ranks run in must be called `node`; a launcher in the hostfile counts as a node; `mlPolicy.numNodes` counts launchers.
The launcher is a batch Job, as in v2beta1.
"""

from __future__ import annotations

import re
from dataclasses import replace

from agents.client.convert.common import RETRIES, gang, given, has_other, settings, with_main
from agents.client.convert.kubeflow import expressible
from agents.client.errors import ManifestError
from agents.job.json_object import Body, Object
from agents.job.model import CleanPodPolicy, Dialect, Implementation, Job, Role, Transport
from agents.job.read import OUR_CONTROLLERS
from agents.job.template import main_container

API_VERSION = "trainer.kubeflow.org/v1alpha1"
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_LAUNCHER, _NODE = "launcher", "node"  # names of the jobs; the second one of containers, too
_MULTIKUEUE = "kueue.x-k8s.io/multikueue"  # the one other controller that a TrainJob may have
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_POD_NAME_MAX, _SUFFIX = 63, "-abcde"  # which a Job appends to its pods' names


def to_trainjob(job: Job, metadata: Object) -> tuple[tuple[Body, ...], list[str]]:
    """Return the runtime and the TrainJob, with this metadata, and what is lost. Raises ManifestError."""
    _check(job)
    lost = _lost(job)
    job, others = expressible(job, Dialect.V2BETA1, "a TrainJob")
    base = str(metadata.get("name") or metadata["generateName"]).rstrip("-.")
    named = {"name": base, **given({"namespace": metadata.get("namespace")})}
    runtime = {"apiVersion": API_VERSION, "kind": "TrainingRuntime", "metadata": named, "spec": _runtime(job)}
    spec = {
        "runtimeRef": {"apiGroup": API_VERSION.partition("/")[0], "kind": "TrainingRuntime", "name": base},
        "trainer": {"numNodes": job.worker.replicas + job.launcher_is_worker, "numProcPerNode": job.slots},
        **given({"suspend": job.policy.is_suspended or None}),
        **({"managedBy": _MULTIKUEUE} if job.policy.managed_by == _MULTIKUEUE else {}),
    }
    return (runtime, {"apiVersion": API_VERSION, "kind": "TrainJob", "metadata": metadata, "spec": spec}), lost + others


def _check(job: Job) -> None:
    longest = f"{job.name}-{_LAUNCHER}-0-{max(job.worker.replicas - 1, 0)}{_SUFFIX}"
    reason = ""
    if job.implementation is not Implementation.OPEN_MPI:
        reason = f"Trainer starts Open MPI only, not {job.implementation}"
    elif not _LABEL.fullmatch(job.name):
        reason = "its name must be lower case letters, digits and '-', with a letter first"
    elif len(longest) > _POD_NAME_MAX:
        reason = f"its name is {len(longest) - _POD_NAME_MAX} too long"
    elif has_other(job, _NODE):
        reason = f"it has a container {_NODE} in addition to the ranks' container"
    if reason:
        raise ManifestError(f"job {job.name} can't be a TrainJob: {reason}")


def _lost(job: Job) -> list[str]:
    policy, scheduling = job.policy, gang(job.policy.scheduling)
    sshd = job.worker.template and {"command", "args"} & {*main_container(job.worker.template, job.main_container)}
    ours = settings(job) | {
        "workerUpdateStrategy": str(job.worker_update),
        "runMode": job.debug is not None or bool(job.resume) or None,
    }
    is_exec = job.transport is Transport.EXEC
    is_managed = policy.managed_by not in ("", _MULTIKUEUE, *OUR_CONTROLLERS)
    phrases = {
        "transport exec: Trainer's mpirun uses ssh, for which the image needs an sshd with host keys": is_exec,
        "the command of the workers: sshd instead": is_exec and sshd,
        f"cleanPodPolicy {policy.clean_pods}: workers go when the launcher has ended": policy.clean_pods
        is CleanPodPolicy.NONE,
        "ttlSecondsAfterFinished: the TrainJob stays until it is deleted": policy.ttl_s is not None,
        f"managedBy {policy.managed_by}": is_managed,
        f"schedulingPolicy ({', '.join(scheduling)}): set podGroupPolicy in the runtime": scheduling,
        f"our settings ({', '.join(given(ours))}): our agents are not there": given(ours),
    }
    return [phrase for phrase, is_lost in phrases.items() if is_lost]


def _runtime(job: Job) -> Body:
    """Return the runtime's spec; the job's limit of retries is v2beta1's."""
    tries, deadline = job.policy.backoff_limit, job.policy.active_deadline_s
    limits = {"backoffLimit": RETRIES if tries is None else tries, **given({"activeDeadlineSeconds": deadline})}
    launcher = _replicated(_LAUNCHER, job.launcher, job.main_container)
    launcher["template"] = {"metadata": {"labels": {_STEP: "trainer"}}, "spec": limits | launcher["template"]["spec"]}
    jobs = [launcher]
    if job.worker.replicas:  # mpirun fails where no sshd answers; a job may depend on those before it
        jobs.insert(0, _replicated(_NODE, _with_sshd(job), job.main_container))
        launcher["dependsOn"] = [{"name": _NODE, "status": "Ready"}]
    mpi = {
        "numProcPerNode": job.slots,
        "mpiImplementation": str(job.implementation),
        "sshAuthMountPath": job.ssh.mount_path,
        "runLauncherAsNode": job.launcher_is_worker,
    }
    network = {"publishNotReadyAddresses": True}
    success = {"operator": "All", "targetReplicatedJobs": [_LAUNCHER]}
    template = {"spec": {"network": network, "successPolicy": success, "replicatedJobs": jobs}}
    return {"mlPolicy": {"numNodes": 1, "mpi": mpi}, "template": template}


def _replicated(name: str, role: Role, main: str) -> Body:
    pod = with_main(role.template, main, {"name": _NODE})
    pod["spec"]["restartPolicy"] = str(role.restart_policy)
    return {"name": name, "replicas": 1, "template": {"spec": {"template": pod}}}


def _with_sshd(job: Job) -> Role:
    """Return the workers with the sshd that mpi-operator runs in them if they have no command."""
    template = job.worker.template
    has_own = {"command", "args"} & {*main_container(template, job.main_container)}
    if has_own and job.transport is Transport.SSH:
        return job.worker
    return replace(
        job.worker,
        template=with_main(template, job.main_container, {"command": [job.ssh.sshd_path, "-De"], "args": None}),
    )
