"""Gang scheduling: the PodGroup of Volcano or of scheduler-plugins' coscheduling (mpi-operator v0.8.2, podgroup.go)."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from agents.operator.kinds import SCHEDULER_PLUGINS_POD_GROUP, VOLCANO_POD_GROUP
from agents.operator.objects import metadata, quantity

if TYPE_CHECKING:
    from agents.job.model import Job, Role
    from agents.operator.settings import PodSettings

Body = dict[str, Any]

_VOLCANO = "volcano"
_QUEUE = "scheduling.volcano.sh/queue-name"
_VOLCANO_GROUP = "scheduling.k8s.io/group-name"
_SCHEDULER_PLUGINS_GROUP = "scheduling.x-k8s.io/pod-group"


def pod_group(job: Job, settings: PodSettings) -> Body | None:
    """Return the PodGroup, None without a gang scheduler.

    Volcano has no field for schedulingPolicy's scheduleTimeoutSeconds, coscheduling none for queue and priorityClass.
    """
    if not settings.gang_scheduler:
        return None
    spec: Body = {"minMember": least_members(job)}
    if resources := _least_resources(job):
        spec["minResources"] = resources
    if settings.gang_scheduler != _VOLCANO:
        spec["scheduleTimeoutSeconds"] = job.policy.scheduling.timeout_s or 0
        return {**metadata.new(SCHEDULER_PLUGINS_POD_GROUP, job, job.name, settings), "spec": spec}
    if queue := job.policy.scheduling.queue or job.annotations.get(_QUEUE):
        spec["queue"] = queue
    if priority := job.policy.scheduling.priority_class or _priority(job.launcher) or _priority(job.worker):
        spec["priorityClassName"] = priority
    return {**metadata.new(VOLCANO_POD_GROUP, job, job.name, settings), "spec": spec}


def join(job: Job, settings: PodSettings, pod: Body) -> None:
    """Make a pod one of the job's PodGroup.

    As in kubeflow, the template's own scheduler gives way: a gang of which half is another's is never complete.
    """
    if not settings.gang_scheduler:
        return
    pod["spec"]["schedulerName"] = settings.gang_scheduler
    if settings.gang_scheduler == _VOLCANO:
        pod["metadata"]["annotations"][_VOLCANO_GROUP] = job.name
    else:
        pod["metadata"]["labels"][_SCHEDULER_PLUGINS_GROUP] = job.name


def least_members(job: Job) -> int:
    """Return how many pods must find a place at once: all, but for a launcher that waits for ready workers."""
    chosen = job.policy.scheduling.min_available
    return chosen if chosen is not None else job.worker.replicas + (0 if job.launcher_waits else 1)


def _least_resources(job: Job) -> dict[str, str]:
    """Return what so many pods ask for: the launcher, and workers for the rest.

    Upstream would count the role first whose PriorityClass has the higher value, which only the cluster knows.
    """
    if job.policy.scheduling.min_resources is not None:
        return dict(job.policy.scheduling.min_resources)
    members = least_members(job)
    launchers = 0 if job.launcher_waits else min(1, max(members, 0))
    workers = min(job.worker.replicas, max(members - launchers, 0))
    total: defaultdict[str, Fraction] = defaultdict(Fraction)
    for role, count in ((job.launcher, launchers), (job.worker, workers)):
        for name, value in _asked_for(role).items():
            total[name] += value * count
    return {name: quantity.render(value) for name, value in total.items() if value}


def _asked_for(role: Role) -> dict[str, Fraction]:
    """Return the sum of a role's containers: requests, and limits where there is no request."""
    total: defaultdict[str, Fraction] = defaultdict(Fraction)
    for container in role.template.get("spec", {}).get("containers", []):
        resources = container.get("resources", {})
        for name, text in {**resources.get("limits", {}), **resources.get("requests", {})}.items():
            try:
                total[name] += quantity.parse(text)
            except ValueError:  # of a size that nothing has, `1e999`: the API server will refuse the pod
                continue
    return total


def _priority(role: Role) -> str:
    return str(role.template.get("spec", {}).get("priorityClassName") or "")
