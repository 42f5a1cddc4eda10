"""The launcher: a Pod, or in v2beta1 a batch Job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.job.model import LAUNCHER
from agents.operator.kinds import BATCH_JOB, POD
from agents.operator.objects import agents, environment, metadata, names, pod, rbac

if TYPE_CHECKING:
    from agents.job.model import Job
    from agents.operator.settings import PodSettings


def launcher(job: Job, settings: PodSettings) -> dict[str, Any]:
    """Return the launcher's Pod or batch Job."""
    template = _template(job, settings)
    if job.dialect.has_launcher_pod:
        about = {"name": job.launcher_name, "namespace": job.namespace, **template["metadata"]}
        about["ownerReferences"] = [metadata.owner(POD, job, settings)]
        return {"apiVersion": POD.api_version, "kind": POD.name, "metadata": about, "spec": template["spec"]}
    # Deadline and time to live are the operator's business: they hold for the workers, too.
    spec: dict[str, Any] = {
        "podReplacementPolicy": "Failed",  # else two launchers may run at once (kubernetes/kubernetes#115844)
        "template": template,
    }
    if job.policy.backoff_limit is not None:
        spec["backoffLimit"] = job.policy.backoff_limit
    if job.policy.is_suspended:
        spec["suspend"] = True
    body = metadata.new(BATCH_JOB, job, job.launcher_name, settings)
    body["metadata"]["annotations"] = {**metadata.made_from(job, job.launcher), **_account(job)}
    return {**body, "spec": spec}


def _template(job: Job, settings: PodSettings) -> dict[str, Any]:
    body = pod.from_template(job, job.launcher, settings, metadata.pod_labels(job, LAUNCHER))
    body["metadata"]["annotations"] |= _account(job)
    spec = body["spec"]
    pod.name_host(job, settings, spec, names.launcher_hostname(job))
    if account := rbac.own_account(job) or ("" if rbac.service_account(job, settings) is None else job.launcher_name):
        spec["serviceAccountName"] = account
    pod.set_environment(pod.main_container(job, spec), environment.launcher(job))
    agents.add(job, settings, spec)
    return body


def _account(job: Job) -> dict[str, str]:
    return {names.ACCOUNT: rbac.account(job)} if rbac.is_made(job) else {}
