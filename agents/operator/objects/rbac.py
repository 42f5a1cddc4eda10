"""RBAC for hub and delivery: exec into this job's workers, and watch them. With SSH they don't use the API."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agents.job.json_object import Body
from agents.job.model import Job, Rbac, Transport
from agents.kube.kinds import ROLE, ROLE_BINDING, SERVICE_ACCOUNT
from agents.operator.objects import names
from agents.operator.settings import PodSettings

_SHOWN = 100


def is_made(job: Job) -> bool:
    """Return whether the operator makes a Role for the job."""
    return job.rbac is Rbac.MANAGED and job.transport is Transport.EXEC


def service_account(job: Job, settings: PodSettings) -> Body | None:
    """Return the launcher's ServiceAccount; None if the user has named one, or the job manages no rights."""
    if not is_made(job) or own_account(job):
        return None
    return {
        **names.new_object(SERVICE_ACCOUNT, job, job.launcher_name, settings),
        "automountServiceAccountToken": False,
    }


def role(job: Job, settings: PodSettings, hosts: Sequence[int]) -> Body | None:
    """Return the Role for a job whose workers have these indexes; None if the job needs none."""
    if not is_made(job):
        return None
    return {**names.new_object(ROLE, job, job.launcher_name, settings), "rules": rules(job, hosts)}


def role_binding(job: Job, settings: PodSettings, bound: str = "") -> Body | None:
    """Return the RoleBinding of the launcher's ServiceAccount; None if the job needs none.

    `bound`: that of the launcher that is there, as the template may name another one by now.
    """
    if not is_made(job):
        return None
    return {
        **names.new_object(ROLE_BINDING, job, job.launcher_name, settings),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": job.launcher_name},
        "subjects": [{"kind": "ServiceAccount", "name": bound or account(job), "namespace": job.namespace}],
    }


def account(job: Job) -> str:
    """Return the name of the launcher's ServiceAccount."""
    return own_account(job) or (job.launcher_name if job.rbac is Rbac.MANAGED else "default")


def own_account(job: Job) -> str:
    """Return the ServiceAccount that the user's template names, "" if it names none. The API has two fields for it."""
    spec = job.launcher.template.get("spec", {})
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "")


def rules(job: Job, hosts: Sequence[int]) -> list[Body]:
    """Return the rules. A rule without names would be for all pods, so without workers there is no such rule."""
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    workers = [job.worker_name(index) for index in hosts]
    # A WebSocket is a GET; Kubernetes 1.35 and later check create as well, and SPDY is a POST.
    execs = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"], "resourceNames": workers}
    return [pods, execs] if workers else [pods]


def needed_rule(job: Job, hosts: Sequence[int]) -> str:
    """Return, for people, what an administrator has to grant where no Role is made; the rules are YAML.

    A condition has room for the names of a hundred workers or two.
    """
    text = json.dumps(rules(job, hosts[:_SHOWN]))
    more = f", with {len(hosts) - _SHOWN} more names of that kind" if len(hosts) > _SHOWN else ""
    return f"ServiceAccount {account(job)} in namespace {job.namespace} needs a Role with rules: {text}{more}"
