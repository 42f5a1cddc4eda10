"""Gang scheduling: the PodGroup of Volcano, of scheduler-plugins' coscheduling, or of T9k's scheduler.

The first two as in mpi-operator v0.8.2's podgroup.go, the last as T9k's manual has it (tasks/use-podgroup.md).
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from agents.common.quantity import asked_for, format_quantity
from agents.job.json_object import Body
from agents.job.model import Dialect, Job, Role
from agents.kube.kinds import pod_group_kind
from agents.operator.objects import names
from agents.operator.settings import PodSettings

_VOLCANO, _T9K = "volcano", "t9k"
_QUEUE = "scheduling.volcano.sh/queue-name"
_VOLCANO_GROUP = "scheduling.k8s.io/group-name"
_SCHEDULER_PLUGINS_GROUP = "scheduling.x-k8s.io/pod-group"
_T9K_PREFIX = "scheduler.tensorstack.dev/"
_T9K_SCHEDULER = "t9k-scheduler"
_HOW = "For T9k's scheduler, an administrator sets jobs.gangScheduler of the operator's chart to t9k"


def pod_group(job: Job, settings: PodSettings) -> Body | None:
    """Return the PodGroup, None for a job that has none.

    Volcano has no field for schedulingPolicy's scheduleTimeoutSeconds, coscheduling none for queue and priorityClass,
    T9k's scheduler none for any but the queue. A priority in numbers is T9k's alone.
    """
    if not _has_group(job, settings):
        return None
    specs = {_VOLCANO: _volcanos, _T9K: _t9ks}
    spec = specs.get(settings.gang_scheduler, _coschedulings)(job)
    return {**names.new_object(pod_group_kind(settings.gang_scheduler), job, job.name, settings), "spec": spec}


def join(job: Job, settings: PodSettings, pod: Body) -> None:
    """Make a pod one of the job's PodGroup.

    As in kubeflow, the template's own scheduler gives way: a gang of which half is another's is never complete.
    """
    if not _has_group(job, settings):
        return
    labels = pod["metadata"]["labels"]
    pod["spec"]["schedulerName"] = settings.gang_scheduler
    if settings.gang_scheduler == _VOLCANO:
        pod["metadata"]["annotations"][_VOLCANO_GROUP] = job.name
    elif settings.gang_scheduler == _T9K:
        pod["spec"]["schedulerName"] = _T9K_SCHEDULER
        labels |= {f"{_T9K_PREFIX}group-name": job.name, f"{_T9K_PREFIX}role": labels[names.ROLE]}
        if queue := job.policy.scheduling.queue:
            labels[f"{_T9K_PREFIX}queue"] = queue
    else:
        labels[_SCHEDULER_PLUGINS_GROUP] = job.name


def ignored(job: Job, settings: PodSettings) -> str:
    """Return what of a T9k job's t9kScheduler has no effect with this operator's gang scheduler, and why; or ""."""
    asked, scheduler = job.policy.scheduling, settings.gang_scheduler
    if job.dialect is not Dialect.T9K or not asked.queue or scheduler == _T9K:
        return ""
    if not scheduler:
        effect = "has no effect: no gang scheduler is configured, so the default scheduler places the pods one by one"
        return f"spec.scheduler.t9kScheduler {effect}. {_HOW}"
    fields = [*([] if scheduler == _VOLCANO else ["queue"]), *(["priority"] if asked.priority else [])]
    named = " and ".join(f"spec.scheduler.t9kScheduler.{field}" for field in fields)
    return f"{named} has no effect: the gang scheduler is {scheduler}. {_HOW}" if named else ""


def _has_group(job: Job, settings: PodSettings) -> bool:
    """Return whether a job is scheduled as a gang. T9k's jobs say so each, by naming a queue."""
    is_asked = job.dialect is not Dialect.T9K or bool(job.policy.scheduling.queue)
    return bool(settings.gang_scheduler) and is_asked


def _volcanos(job: Job) -> Body:
    spec = _members(job)
    if queue := job.policy.scheduling.queue or job.annotations.get(_QUEUE):
        spec["queue"] = queue
    if priority := job.policy.scheduling.priority_class or _priority(job.launcher) or _priority(job.worker):
        spec["priorityClassName"] = priority
    return spec


def _coschedulings(job: Job) -> Body:
    return {**_members(job), "scheduleTimeoutSeconds": job.policy.scheduling.timeout_s or 0}


def _t9ks(job: Job) -> Body:
    asked = job.policy.scheduling
    spec: Body = {"minMember": least_members(job)}
    if asked.queue:
        spec["queue"] = asked.queue
    if asked.priority is not None:
        spec["priority"] = asked.priority
    return spec


def _members(job: Job) -> Body:
    resources = _least_resources(job)
    return {"minMember": least_members(job), **({"minResources": resources} if resources else {})}


def least_members(job: Job) -> int:
    """Return how many pods must find a place at once: all, except a launcher that waits for ready workers."""
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
        for name, value in asked_for(role.template).items():
            total[name] += value * count
    return {name: format_quantity(value) for name, value in total.items() if value}


def _priority(role: Role) -> str:
    return str(role.template.get("spec", {}).get("priorityClassName") or "")
