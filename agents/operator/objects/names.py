"""Names, labels, annotations and owner references of a job's objects.

A job's name may begin with a digit and contain dots. Pods use it as it is; what must be a DNS label (the Service, host
names) is derived from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import replace

from agents.job.fields import LABEL_SIZE, is_label
from agents.job.json_object import Body
from agents.job.model import KUBEFLOW, LAUNCHER, PREFIX, WORKER, Dialect, Implementation, Job, Passwd, Role, Transport
from agents.job.template import container_names
from agents.kube.kinds import BATCH_JOB, POD, Kind
from agents.operator.settings import PodSettings

JOB_UID = f"{PREFIX}job-uid"  # label of all that is made for a job, by which it is watched
VIRTUAL_CLUSTER = f"{PREFIX}virtual-cluster"  # label of its pods: its name
ROLE = f"{PREFIX}role"  # label of pods: LAUNCHER or WORKER
TEMPLATE = f"{PREFIX}template"  # annotation: what a pod was made from
ACCOUNT = f"{PREFIX}service-account"  # annotation of a launcher: whose rights it has, where we grant them
SETTINGS = f"{PREFIX}settings"  # annotation: by which of those settings that a job's pods have in common
HUB, DELIVERY, WORKER_AGENT, BOOTSTRAP = "hub", "kubectl-delivery", "worker-agent", "sshd-bootstrap"  # containers
APPLICATION = "mpi-wrap-delivery"  # the container that copies what application containers need
CONFIG_VOLUME, TOOLS_VOLUME, RUN_VOLUME, TOKEN_VOLUME = (
    "mpi-job-config",
    "mpi-job-kubectl",
    "mpi-agents-run",
    "mpi-agents-token",
)
CONFIG_PATH, TOOLS_PATH, RUN_PATH = "/etc/mpi", "/opt/kube", "/run/mpi-agents"
IMAGE_VOLUME, WRAP_VOLUME = "mpi-agents-image", "mpi-agents-wrap"
PROGRAMS_PATH = "/opt/mpi-agents"  # our image's tools folder, in containers of virtual clusters
IMAGE_TOOLS, IMAGE_KUBE = "usr/local/lib/mpi-agents", "opt/kube"  # folders of our image
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 (a path)
SSH_VOLUME, SSH_KEYS_VOLUME, ORDERS_VOLUME = "ssh-auth", "mpi-job-ssh", "mpi-agents-orders"
SSH_PATH, SSH_KEYS_PATH, ORDERS_PATH = "/mpi-ssh", "/etc/mpi-ssh", "/etc/mpi-orders"  # in our containers
SSH_RUN_PATH, SSH_EMPTY_PATH = "/run/mpi-agents/ssh", "/run/sshd"  # in the user's
SSHD_START = f"{SSH_RUN_PATH}/sshd-start"
SSH_CONFIG = f"{SSH_RUN_PATH}/ssh_config"
AGENT = f"{CONFIG_PATH}/kubexec.sh"  # Horovod compares this very text (runner/util/env.py)
OWN_SSH = f"{CONFIG_PATH}/ssh.sh"
HOSTFILE = f"{CONFIG_PATH}/hostfile"

_HASH_SIZE = 8


def service_name(job: Job) -> str:
    """Return the Service's name, which is the subdomain of the pods: the job's if it can be one (RFC 1035)."""
    is_one = is_label(job.name) and not job.name[0].isdigit()
    return job.name if is_one else _derived(job.name, before="mpi-")


def launcher_hostname(job: Job) -> str:
    """Return the launcher pod's host name."""
    return _hostname(job, f"-{job.dialect.launcher_suffix}")


def worker_hostname(job: Job, index: int) -> str:
    """Return a worker pod's host name, which is its own name if that can be one."""
    return _hostname(job, f"-{job.dialect.worker_suffix}-{index}")


def launcher_host(job: Job, settings: PodSettings) -> str:
    """Return the launcher as the hostfile names it."""
    name = launcher_hostname(job) if job.transport is Transport.SSH else job.launcher_name
    return name + host_suffix(job, settings)


def worker_host(job: Job, index: int, settings: PodSettings) -> str:
    """Return a worker as the hostfile names it: by its pod's name, which is what an exec needs, even if it has dots.

    ssh looks for it in DNS, where it is by its host name.
    """
    name = worker_hostname(job, index) if job.transport is Transport.SSH else job.worker_name(index)
    return name + host_suffix(job, settings)


def host_suffix(job: Job, settings: PodSettings) -> str:
    """Return what follows a pod's name in the hostfile: nothing in v1, the name's domain in v2beta1."""
    if job.dialect.has_short_hosts:
        return ""
    domain = f".{settings.cluster_domain}" if settings.cluster_domain else ""
    return f".{service_name(job)}.{job.namespace}.svc{domain}"


def worker_selector(uid: str) -> str:
    """Return the label selector of the worker pods of the job with this uid."""
    return f"{JOB_UID}={uid},{ROLE}={WORKER}"


def unique(name: str, used: Collection[str]) -> str:
    """Return a name that is not used, this one if it can be: what the user has named stays."""
    names = (name, *(f"{name}-{number}" for number in range(2, len(used) + 3)))
    return next(one for one in names if one not in used)


def _hostname(job: Job, ending: str) -> str:
    name = job.name + ending
    return name if is_label(name) else _derived(job.name, after=ending)


def _derived(name: str, *, before: str = "", after: str = "") -> str:
    """Return a DNS label of a name that is none; the hash keeps `a.b` and `a-b` apart."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_SIZE]
    room = LABEL_SIZE - len(before) - len(after) - _HASH_SIZE - 1
    return f"{before}{name.replace('.', '-')[:room]}-{digest}{after}"


_TRAINING, _T9K = "training.kubeflow.org/", "tensorstack.dev/"
_TEMPLATE_HASH_SIZE = 16


def new_object(kind: Kind, job: Job, name: str, settings: PodSettings) -> Body:
    """Return an object of a job, with what all of them have: tools find it by `app`, we by the job's uid."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": {"app": job.name, JOB_UID: job.uid},
            "ownerReferences": [owner_reference(kind, job, settings)],
        },
    }


def owner_reference(kind: Kind, job: Job, settings: PodSettings) -> Body:
    """Return the reference by which what is made goes when the job goes.

    By another version than the one it watches, the group's preferred one, a reference costs the garbage collector two
    requests (kubernetes, garbagecollector/graph_builder.go). Kueue knows the pods of v2beta1's jobs by v2beta1.
    """
    is_kueues = job.dialect is Dialect.V2BETA1 and kind in {POD, BATCH_JOB}
    is_kubeflows = job.dialect in KUBEFLOW
    return {
        "apiVersion": (is_kubeflows and not is_kueues and settings.owner_version) or job.api_version,
        "kind": job.dialect.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_labels(job: Job, role: str, index: int | None = None) -> dict[str, str]:
    """Return what a pod of a role is labelled with; `index` is a worker's.

    v1 has what mpi-operator v0.3.0 and training-operator v1.9.3 set, v2beta1 what mpi-operator v0.8.2 does. T9k's are
    by analogy with its GenericJob's (tasks/use-podgroup.md): its MPIJob's own are not published.
    """
    own = {JOB_UID: job.uid, ROLE: role}
    if job.dialect is Dialect.T9K:
        pod = job.launcher_name if index is None else job.worker_name(index)
        component = {f"{_T9K}component": "mpijob", f"{_T9K}component-type": "user"}
        return {"mpijob": job.name, "mpijob-replica": pod, **component, **own}
    if job.dialect is Dialect.VIRTUAL:
        return {VIRTUAL_CLUSTER: job.name, **own}
    labels = {f"{_TRAINING}job-name": job.name, **own}
    if job.dialect is Dialect.V1:
        labels |= {
            "group-name": "kubeflow.org",
            "mpi-job-name": job.name,
            "mpi-job-role": role,
            f"{_TRAINING}operator-name": "mpijob-controller",
            f"{_TRAINING}replica-type": role,
        }
        if role == LAUNCHER:
            labels[f"{_TRAINING}job-role"] = "master"
    else:
        labels |= {f"{_TRAINING}operator-name": "mpi-operator", f"{_TRAINING}job-role": role}
        if job.launcher_is_worker:  # all pods of a group have an index of their own: Kueue counts on it
            index = 0 if index is None else index + 1
    return labels if index is None else labels | {f"{_TRAINING}replica-index": str(index)}


def made_from(job: Job, role: Role) -> dict[str, str]:
    """Return the annotations that say what a pod of a role was created from."""
    settings = shared(job)
    written = {SETTINGS: json.dumps(settings, sort_keys=True, separators=(",", ":"))} if settings else {}
    return {TEMPLATE: template_hash(role), **written}


def template_hash(role: Role) -> str:
    """Return a hash of a role's template. It excludes what the operator adds, so an upgrade rolls no workers."""
    content = json.dumps([role.restart_policy, role.template], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()[:_TEMPLATE_HASH_SIZE]


def shared(job: Job) -> dict[str, str]:
    """Return the settings, besides transport and dialect, that all pods of a job must share.

    A worker that was created with another value is no host for the running launcher: its sshd listens at another port,
    or knows another user, or ranks run in another container. Keys are the annotations' names, values are "" by default;
    the main container is always named, since another template may have another first one.
    """
    found: dict[str, str] = {}
    if job.dialect is not Dialect.T9K:  # which has none of these: the container's name is its template's
        found |= {
            "mainContainer": job.main_container or next(iter(container_names(job.worker.template)), ""),
            "mpiImplementation": str(job.implementation),
            "runLauncherAsWorker": str(job.launcher_is_worker).lower(),
        }
    if job.transport is Transport.SSH:
        found |= {
            "sshAuthMountPath": job.ssh.mount_path,
            "sshPasswd": str(job.ssh.passwd),
            "sshPort": str(job.ssh.port or ""),
        }
    return found


def with_shared(job: Job, given: Mapping[str, str]) -> Job:
    """Return the job with these shared settings in place of its own; ValueError if one has no value of its kind."""
    found = {**shared(job), **given}
    if job.dialect is not Dialect.T9K:
        job = replace(
            job,
            main_container=given.get("mainContainer", job.main_container),
            implementation=Implementation(found["mpiImplementation"]),
            launcher_is_worker=found["runLauncherAsWorker"] == "true",
        )
    if job.transport is Transport.SSH:
        passwd, port = Passwd(found["sshPasswd"]), int(found["sshPort"] or 0) or None
        job = replace(job, ssh=replace(job.ssh, mount_path=found["sshAuthMountPath"], passwd=passwd, port=port))
    return job
