"""Plans a job's objects other than pods: ConfigMap, Secret, ServiceAccount, Role, RoleBinding, Service, PodGroup."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence

from agents.job.json_object import Body, Object, mapping, mappings, part
from agents.job.model import PREFIX, Dialect, KeyType, Transport
from agents.kube.kinds import (
    CONFIG_MAP,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Kind,
    pod_group_kind,
)
from agents.operator import objects
from agents.operator.actions import Create, Delete, Patch
from agents.operator.objects import names
from agents.operator.planning.view import Observed, View
from agents.operator.trim import shortened

_NUMBER = "the workers' number"
SPEC_HASH = f"{PREFIX}spec"  # annotation of a PodGroup, whose spec the cache doesn't keep


def changes(view: View) -> tuple[Create | Patch, ...]:
    """Return what creates or updates all objects except the Role. The ConfigMap follows the workers' number.

    The RoleBinding follows the template's ServiceAccount, but not before the launcher of the old one is gone. What
    someone else has changed in them is changed back. A Secret that is gone comes back with new keys.
    """
    job, settings, seen = view.job, view.settings, view.observed
    config_map = objects.config_map(job, settings, view.hosts, _running(view), _addresses(view))
    binding, account = objects.role_binding(job, settings, _account(view)), "the launcher's ServiceAccount"
    found = (
        _wanted(CONFIG_MAP, config_map, seen.config_map, "data", _NUMBER),
        _wanted(SECRET, objects.secret(job, settings), seen.secret, key_type=job.ssh.key_type),
        _wanted(SERVICE, objects.service(job, settings), seen.service),
        _wanted(SERVICE_ACCOUNT, objects.service_account(job, settings), seen.service_account),
        _wanted(ROLE_BINDING, binding, seen.role_binding, "subjects", account),
        _pod_group(view),
    )
    return tuple(one for one in found if one is not None)


def role(view: View, made: Collection[str]) -> tuple[Patch | None, Create | Patch | None]:
    """Return what changes the Role at once, and what does so when workers of these names have been `made` as well.

    It lists pods by their names alone, so a name stands in it only while the pod that has it is this job's: one that is
    there, or one that the API server has just made for us. A worker that is replaced at once keeps its entry.
    """
    job, seen = view.job, view.observed.role
    listed = _listed(seen)
    hosts = {index: job.worker_name(index) for index in view.hosts}
    present = {name for index, name in hosts.items() if index in view.workers}
    kept = present | {name for name in listed.intersection(made) if not view.rejection(POD, name)}
    now, later = (
        objects.role(job, view.settings, [index for index, name in hosts.items() if name in names])
        for names in (kept, present.union(made))
    )
    if seen is None:
        return None, _wanted(ROLE, later, seen)
    change = _patched(ROLE, now, seen, "rules", _NUMBER) if seen.get("rules") else None
    return change, None if change else _patched(ROLE, later, seen, "rules", _NUMBER)


def rights_end(view: View, *, is_final: bool) -> tuple[Patch, ...]:
    """Return what takes the launcher's rights: all when it has ended, or else to workers that are gone.

    Until it has ended its hub clears the workers. All go at once: with the first worker of a job that is suspended.
    """
    seen = view.observed.role
    if seen is None or not seen.get("rules") or part(seen, "metadata").get("deletionTimestamp"):
        return ()
    listed = _listed(seen)
    present = [index for index in view.hosts if index in view.workers and view.job.worker_name(index) in listed]
    if not is_final and listed and len(present) == len(listed):
        return ()
    body = {"metadata": {"name": view.job.launcher_name}, "rules": []}
    if any(not pod.is_over for pod in view.launchers):
        body = objects.role(view.job, view.settings, present) or body
    change = _patched(ROLE, body, seen, "rules", "the launcher no longer needs them")
    return () if change is None else (change,)


def rights_lost(observed: Observed) -> tuple[tuple[Patch], ...]:
    """Return what takes the rights to workers that are gone, of a job for which nothing else is done.

    It may be there for long, with its launcher: held by a finalizer, or edited so that it can't be read.
    """
    seen = observed.role
    if seen is None or part(seen, "metadata").get("deletionTimestamp"):
        return ()
    present = {str(part(pod, "metadata").get("name")) for pod in observed.pods}
    if _listed(seen) <= present:
        return ()
    rules: list[Object] = []
    for rule in mappings(seen.get("rules")):
        kept = [name for name in rule.get("resourceNames") or () if name in present]
        if kept or not rule.get("resourceNames"):
            rules.append({**rule, "resourceNames": kept} if kept else rule)
    name = str(part(seen, "metadata").get("name"))
    return ((Patch(ROLE, name, {"metadata": _version(seen), "rules": rules}, "workers are gone"),),)


def _listed(role: Object | None) -> set[str]:
    """Return the pods that a Role names."""
    rules = mappings(mapping(role).get("rules"))
    return {str(name) for rule in rules for name in rule.get("resourceNames") or ()}


def pod_group_end(view: View) -> tuple[Delete, ...]:
    """Return the deletion of the PodGroup, if there is one: it would hold its place in the queue for nothing."""
    kind = pod_group_kind(view.settings.gang_scheduler)
    return deletion(kind, view.observed.pod_group, "no pods to schedule")


def unused_rights(view: View) -> tuple[Delete, ...]:
    """Return the deletion of the launcher's rights of a job whose transport was changed from exec to SSH in a pause.

    While it has pods with transport exec it stays a job with transport exec (`pinned`), so nobody uses them.
    """
    if view.job.transport is Transport.EXEC:
        return ()
    seen = view.observed
    rights = (
        (ROLE_BINDING, seen.role_binding),
        (ROLE, seen.role),
        (SERVICE_ACCOUNT, seen.service_account),
    )
    why = "left over from the exec transport; the job uses ssh now"
    return tuple(one for kind, body in rights for one in deletion(kind, body, why))


def deletion(kind: Kind, body: Object | None, why: str) -> tuple[Delete, ...]:
    """Return the deletion of an object, if it is there and is not being deleted."""
    metadata = part(body, "metadata")
    if body is None or metadata.get("deletionTimestamp"):
        return ()
    return (Delete(kind, str(metadata.get("name")), str(metadata.get("uid")), why),)


def _running(view: View) -> Sequence[int] | None:
    """Return the workers that a running launcher may find by discover_hosts.sh; None before it runs.

    With exec the hub knows better. While workers start, each would be another change of the ConfigMap.
    """
    if view.job.transport is Transport.EXEC or not any(pod.phase == "Running" for pod in view.launchers):
        return None
    pods = ((index, view.workers.get(index)) for index in view.hosts)
    return [index for index, pod in pods if pod is not None and pod.phase == "Running" and not pod.is_going]


def _addresses(view: View) -> Sequence[str]:
    """Return the addresses of the nodes, all at once: while they start, each would be a change of the ConfigMap.

    The login pod is not created before the nodes are ready, so it begins with all.
    """
    is_starting = not view.launchers and view.ready < len(view.wanted)
    if view.job.dialect is not Dialect.VIRTUAL or is_starting:
        return ()
    pods = [view.workers.get(index) for index in view.hosts]
    return [pod.state.ips[0] for pod in pods if pod is not None and pod.state.ips]


def _account(view: View) -> str:
    """Return the ServiceAccount of the launcher that is there, "" if there is none.

    One that was made before launchers had it written on them has the one that is bound.
    """
    job = part(view.observed.launcher_job, "metadata")
    annotations = [part(job, "annotations"), *(pod.annotations for pod in view.launchers)]
    written = next((str(one[names.ACCOUNT]) for one in reversed(annotations) if names.ACCOUNT in one), "")
    if written or not (job or view.launchers):
        return written
    bound = mappings(mapping(view.observed.role_binding).get("subjects"))
    return str(bound[0].get("name", "")) if bound else ""


def _wanted(
    kind: Kind,
    body: Body | None,
    seen: Object | None,
    field: str = "",
    why: str = "",
    key_type: KeyType | None = None,
) -> Create | Patch | None:
    """Return what creates an object, or makes a `field` of it what it should be."""
    if body is None:
        return None
    if seen is None:
        return Create(kind, body, "missing", key_type)
    return _patched(kind, body, seen, field, why) if field else None


def _patched(kind: Kind, body: Body | None, seen: Object, field: str, why: str) -> Patch | None:
    if body is None:
        return None
    wanted = body[field]
    if seen.get(field) == (shortened(wanted) if kind is CONFIG_MAP else wanted):
        return None
    change = _replacing(part(seen, field), wanted) if isinstance(wanted, dict) else wanted
    return Patch(kind, body["metadata"]["name"], {"metadata": _version(seen), field: change}, why)


def _pod_group(view: View) -> Create | Patch | None:
    body = objects.pod_group(view.job, view.settings)
    if body is None:
        return None
    kind = pod_group_kind(view.settings.gang_scheduler)
    digest = hashlib.sha256(json.dumps(body["spec"], sort_keys=True).encode()).hexdigest()[:16]
    annotations = {**body["metadata"].get("annotations", {}), SPEC_HASH: digest}
    seen = view.observed.pod_group
    if seen is None:
        metadata = {**body["metadata"], "annotations": annotations}
        return Create(kind, {**body, "metadata": metadata}, "missing")
    if part(seen, "metadata", "annotations").get(SPEC_HASH) == digest:
        return None
    spec = _replacing(part(seen, "spec"), body["spec"])
    change = {"metadata": {**_version(seen), "annotations": {SPEC_HASH: digest}}, "spec": spec}
    return Patch(kind, body["metadata"]["name"], change, "the job's scheduling has changed")


def _replacing(seen: Object, wanted: Object) -> Body:
    """Return the merge patch that leaves nothing of what was there before: what is absent from one stays."""
    change: Body = {name: None for name in seen if name not in wanted}
    for name, value in wanted.items():
        change[name] = _replacing(part(seen, name), value) if isinstance(value, dict) else value
    return change


def _version(seen: Object) -> Object:
    metadata = part(seen, "metadata")
    return {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")}
