"""Plans a job's objects other than pods: ConfigMap, Secret, ServiceAccount, Role, RoleBinding, Service, PodGroup."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from agents.job.json_object import Body, Object, mapping, mappings
from agents.job.model import PREFIX, Transport
from agents.operator import objects
from agents.operator.actions import Create, CreateKeys, Delete, Patch
from agents.operator.kube import CONFIG_MAP, POD, ROLE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT, pod_group_kind
from agents.operator.objects import names
from agents.operator.trim import shortened

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from agents.operator.kube import Kind
    from agents.operator.planning.view import Observed, View

_NUMBER = "the workers' number"
SPEC_HASH = f"{PREFIX}spec"  # annotation of a PodGroup, whose spec the cache doesn't keep


def changes(view: View) -> tuple[Create | CreateKeys | Patch, ...]:
    """Return what makes all but the Role be there and up to date. The ConfigMap follows the workers' number.

    The RoleBinding follows the template's ServiceAccount, but not before the launcher of the former one is gone. What
    someone else has changed in them is changed back. A Secret that is gone comes back with new keys.
    """
    job, settings, seen = view.job, view.settings, view.observed
    found: list[Create | CreateKeys | Patch | None] = [
        _kept(
            CONFIG_MAP, objects.config_map(job, settings, view.hosts, _running(view)), seen.config_map, "data", _NUMBER
        ),
        _keys(view),
        _made(SERVICE, objects.service(job, settings), seen.service),
        _made(SERVICE_ACCOUNT, objects.service_account(job, settings), seen.service_account),
        _kept(
            ROLE_BINDING,
            objects.role_binding(job, settings, _account(view)),
            seen.role_binding,
            "subjects",
            "the launcher's ServiceAccount",
        ),
        _pod_group(view),
    ]
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
        return None, _made(ROLE, later, seen)
    change = _patched(ROLE, now, seen, "rules", _NUMBER) if seen.get("rules") else None
    return change, None if change else _patched(ROLE, later, seen, "rules", _NUMBER)


def rights_end(view: View, *, is_final: bool) -> tuple[Patch, ...]:
    """Return what takes the launcher's rights: all when it has ended, or else to workers that are gone.

    Until it has ended its hub clears the workers. All go at once: with the first worker of a job that is suspended.
    """
    seen = view.observed.role
    if seen is None or not seen.get("rules") or mapping(seen.get("metadata")).get("deletionTimestamp"):
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
    if seen is None or mapping(seen.get("metadata")).get("deletionTimestamp"):
        return ()
    present = {str(mapping(pod.get("metadata")).get("name")) for pod in observed.pods}
    if _listed(seen) <= present:
        return ()
    rules: list[Object] = []
    for rule in mappings(seen.get("rules")):
        kept = [name for name in rule.get("resourceNames") or () if name in present]
        if kept or not rule.get("resourceNames"):
            rules.append({**rule, "resourceNames": kept} if kept else rule)
    name = str(mapping(seen.get("metadata")).get("name"))
    return ((Patch(ROLE, name, {"metadata": _version(seen), "rules": rules}, "workers are gone"),),)


def _listed(role: Object | None) -> set[str]:
    """Return the pods that a Role names."""
    rules = mappings(mapping(role).get("rules"))
    return {str(name) for rule in rules for name in rule.get("resourceNames") or ()}


def pod_group_end(view: View) -> tuple[Delete, ...]:
    """Return the deletion of the PodGroup, if there is one: it would hold its place in the queue for nothing."""
    if view.observed.pod_group is None:
        return ()
    return _deleted(
        pod_group_kind(view.settings.gang_scheduler), view.observed.pod_group, "no pods are to be scheduled"
    )


def left_over(view: View) -> tuple[Delete, ...]:
    """Return the deletion of the rights that a launcher by exec had, of a job that has gone over to ssh in a pause.

    While it has pods by exec it is a job by exec (`pinned`), so nobody uses them.
    """
    if view.job.transport is Transport.EXEC:
        return ()
    seen, why = view.observed, "left over from the exec transport; the job uses ssh now"
    rights = ((ROLE_BINDING, seen.role_binding), (ROLE, seen.role), (SERVICE_ACCOUNT, seen.service_account))
    return tuple(one for kind, body in rights if body is not None for one in _deleted(kind, body, why))


def _deleted(kind: Kind, body: Object, why: str) -> tuple[Delete, ...]:
    metadata = mapping(body.get("metadata"))
    if metadata.get("deletionTimestamp"):
        return ()
    return (Delete(kind, str(metadata.get("name")), str(metadata.get("uid")), why),)


def _running(view: View) -> Sequence[int] | None:
    """Return the workers that a running launcher may find by discover_hosts.sh; None before it runs.

    By exec the hub knows better. While workers start, each would be another change of the ConfigMap.
    """
    if view.job.transport is Transport.EXEC or not any(pod.phase == "Running" for pod in view.launchers):
        return None
    pods = ((index, view.workers.get(index)) for index in view.hosts)
    return [index for index, pod in pods if pod is not None and pod.phase == "Running" and not pod.is_going]


def _keys(view: View) -> CreateKeys | None:
    body = objects.secret(view.job, view.settings)
    if body is None or view.observed.secret is not None:
        return None
    return CreateKeys(body, view.job.ssh.key_type, "missing")


def _account(view: View) -> str:
    """Return the ServiceAccount of the launcher that is there, "" if there is none.

    One that was made before launchers had it written on them has the one that is bound.
    """
    job = mapping(mapping(view.observed.launcher_job).get("metadata"))
    annotations = [mapping(job.get("annotations")), *(pod.annotations for pod in view.launchers)]
    written = next((str(one[names.ACCOUNT]) for one in reversed(annotations) if names.ACCOUNT in one), "")
    if written or not (job or view.launchers):
        return written
    bound = mappings(mapping(view.observed.role_binding).get("subjects"))
    return str(bound[0].get("name", "")) if bound else ""


def _made(kind: Kind, body: Body | None, seen: Object | None) -> Create | None:
    return Create(kind, body, "missing") if body is not None and seen is None else None


def _kept(kind: Kind, body: Body | None, seen: Object | None, part: str, why: str) -> Create | Patch | None:
    """Return what makes `part` of an object what it should be."""
    return _made(kind, body, seen) if seen is None else _patched(kind, body, seen, part, why)


def _patched(kind: Kind, body: Body | None, seen: Object, part: str, why: str) -> Patch | None:
    if body is None:
        return None
    wanted = body[part]
    if seen.get(part) == (shortened(wanted) if kind is CONFIG_MAP else wanted):
        return None
    change = _replacing(mapping(seen.get(part)), wanted) if isinstance(wanted, dict) else wanted
    return Patch(kind, body["metadata"]["name"], {"metadata": _version(seen), part: change}, why)


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
    if mapping(mapping(seen.get("metadata")).get("annotations")).get(SPEC_HASH) == digest:
        return None
    spec = _replacing(mapping(seen.get("spec")), body["spec"])
    change = {"metadata": {**_version(seen), "annotations": {SPEC_HASH: digest}}, "spec": spec}
    return Patch(kind, body["metadata"]["name"], change, "the job's scheduling has changed")


def _replacing(seen: Object, wanted: Object) -> Body:
    """Return the merge patch that leaves nothing of what was there before: what is absent from one stays."""
    change: Body = {name: None for name in seen if name not in wanted}
    for name, value in wanted.items():
        change[name] = _replacing(mapping(seen.get(name)), value) if isinstance(value, dict) else value
    return change


def _version(seen: Object) -> Object:
    metadata = mapping(seen.get("metadata"))
    return {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")}
