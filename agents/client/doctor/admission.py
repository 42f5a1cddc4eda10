"""Objects that are created for a try only (dryRun=All), and what the API server says of them. Pure.

The pods are made of the job's templates: what an operator adds to them is not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.client.doctor.check import Check, Group, fail, ok, skip, warn
from agents.client.errors import AccessError, ClientError, ForbiddenError
from agents.client.manifests import again
from agents.job.json_object import Body, Object, part
from agents.job.model import Job

STRICT = {"dryRun": "All", "fieldValidation": "Strict"}
LENIENT = {"dryRun": "All"}

_STRICT_ERROR = "strict decoding error: "
_NO_DRY_RUN = "does not support dry run"  # apiserver, admission/plugin/webhook/mutating/dispatcher.go
_BASE_MAX = 50  # characters of a pod's name before what the API server appends
_REMEDIES = (
    (re.compile("violates PodSecurity"), "Set the securityContext fields that it names, or use another namespace."),
    (re.compile("exceeded quota"), "Ask for less, wait until other pods end, or have the quota raised."),
    (re.compile("failed quota"), "Give every container these requests and limits."),
    (re.compile("failed calling webhook"), "Its webhook is down: whoever manages the cluster can repair it."),
    (re.compile("admission webhook|ValidatingAdmissionPolicy"), "Do what it asks for: a policy of this cluster."),
    (re.compile("usage per (?:Container|Pod)"), "Stay within the namespace's LimitRange."),
    (re.compile("(?i)service ?account"), "Create the ServiceAccount, or name another one in the template."),
    (re.compile("no PriorityClass"), "Name a PriorityClass that `kubectl get priorityclasses` lists."),
    (re.compile("already exists"), "Delete that job (`kubectl mpi delete`), or choose another name."),
    (re.compile('namespaces "'), "Create the namespace, or choose another one with -n."),
)
_OTHERWISE = "Correct the job."


def job_copy(resource: Object) -> Body:
    """Return a new job with the spec of one that is there."""
    body = again(resource, "")
    body["metadata"]["generateName"] = f"{str(part(resource, 'metadata').get('name'))[:_BASE_MAX]}-"
    return body


def pods(job: Job) -> Iterator[tuple[str, Body]]:
    """Give a pod of each role."""
    for name, role in ((job.launcher_name, job.launcher), (job.worker_name(0), job.worker)):
        if role.template and role.replicas:
            metadata = part(role.template, "metadata")
            kept: Body = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
            named = {"generateName": f"{name[:_BASE_MAX]}-", "namespace": job.namespace, **kept}
            spec = {**part(role.template, "spec"), "restartPolicy": "Never"}
            yield f"pod {name}", {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec}


def is_strict(error: ClientError | None) -> bool:
    """Whether a creation was refused for unknown fields alone: without STRICT they would be dropped."""
    return error is not None and _STRICT_ERROR in str(error)


def result(name: str, strict: ClientError | None, lenient: ClientError | None) -> list[Check]:
    """Return what the API server says of an object; `lenient`: what it says if it may drop unknown fields."""
    found = []
    if strict is not None and is_strict(strict):
        what = f"unknown fields are dropped: {str(strict).partition(_STRICT_ERROR)[2]}"
        found.append(warn(Group.ADMISSION, f"{name}: fields", what, "Correct or remove them."))
    if lenient is None:
        return [ok(Group.ADMISSION, name, "accepted (dry run)"), *found]
    if isinstance(lenient, ForbiddenError) or _NO_DRY_RUN in str(lenient):
        return [skip(Group.ADMISSION, name, f"not tried: {lenient}"), *found]
    if isinstance(lenient, AccessError) and "webhook" not in str(lenient):
        return [skip(Group.ADMISSION, name, str(lenient)), *found]
    message = str(lenient)
    remedy = next((text for pattern, text in _REMEDIES if pattern.search(message)), _OTHERWISE)
    return [fail(Group.ADMISSION, name, f"refused: {message}", remedy), *found]
