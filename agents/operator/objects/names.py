"""What the objects of a job, their labels, hosts and volumes are called.

A job's name may begin with a digit and have dots: its pods are called by it as they are, and what has to be a DNS label
(the Service, host names) is derived from it.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from agents.job.model import LAUNCHER, PREFIX, WORKER, Transport

if TYPE_CHECKING:
    from collections.abc import Collection

    from agents.job.model import Job
    from agents.operator.settings import PodSettings

JOB_UID = f"{PREFIX}job-uid"  # label of all that is made for a job
ROLE = f"{PREFIX}role"  # label of pods: LAUNCHER or WORKER
TEMPLATE = f"{PREFIX}template"  # annotation: what a pod was made from
ACCOUNT = f"{PREFIX}service-account"  # annotation of a launcher: whose rights it has, where we grant them
SETTINGS = f"{PREFIX}settings"  # annotation: by which of those settings that a job's pods have in common
HUB, DELIVERY, WORKER_AGENT, BOOTSTRAP = "hub", "kubectl-delivery", "worker-agent", "sshd-bootstrap"  # containers
CONFIG_VOLUME, TOOLS_VOLUME, RUN_VOLUME, TOKEN_VOLUME = (
    "mpi-job-config",
    "mpi-job-kubectl",
    "mpi-agents-run",
    "mpi-agents-token",
)
CONFIG_PATH, TOOLS_PATH, RUN_PATH = "/etc/mpi", "/opt/kube", "/run/mpi-agents"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 (a path)
SSH_VOLUME, SSH_KEYS_VOLUME, ORDERS_VOLUME = "ssh-auth", "mpi-job-ssh", "mpi-agents-orders"
SSH_PATH, SSH_KEYS_PATH, ORDERS_PATH = "/mpi-ssh", "/etc/mpi-ssh", "/etc/mpi-orders"  # in our containers
SSH_RUN_PATH, SSH_EMPTY_PATH = "/run/mpi-agents/ssh", "/run/sshd"  # in the user's
SSHD_START = f"{SSH_RUN_PATH}/sshd-start"
SSH_CONFIG = f"{SSH_RUN_PATH}/ssh_config"
AGENT = f"{CONFIG_PATH}/kubexec.sh"  # Horovod compares this very text (runner/util/env.py)
HOSTFILE = f"{CONFIG_PATH}/hostfile"

_LABEL_SIZE = 63
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")  # RFC 1035: no digit first
_HOST = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")  # RFC 1123
_HASH_SIZE = 8


def service_name(job: Job) -> str:
    """Return the Service's name, which is the subdomain of the pods: the job's if it can be one."""
    return job.name if _fits(_SERVICE, job.name) else _derived(job.name, before="mpi-")


def launcher_hostname(job: Job) -> str:
    """Return the launcher pod's host name."""
    return _hostname(job, f"-{LAUNCHER}")


def worker_hostname(job: Job, index: int) -> str:
    """Return a worker pod's host name, which is its own name if that can be one."""
    return _hostname(job, f"-{WORKER}-{index}")


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


def worker_selector(job: Job) -> str:
    """Return the label selector of a job's worker pods."""
    return f"{JOB_UID}={job.uid},{ROLE}={WORKER}"


def free(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken, this one if it can be: what the user has named stays."""
    names = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(one for one in names if one not in taken)


def _hostname(job: Job, ending: str) -> str:
    name = job.name + ending
    return name if _fits(_HOST, name) else _derived(job.name, after=ending)


def _fits(form: re.Pattern[str], name: str) -> bool:
    return len(name) <= _LABEL_SIZE and form.fullmatch(name) is not None


def _derived(name: str, *, before: str = "", after: str = "") -> str:
    """Return a DNS label of a name that is none; the hash keeps `a.b` and `a-b` apart."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_SIZE]
    room = _LABEL_SIZE - len(before) - len(after) - _HASH_SIZE - 1
    return f"{before}{name.replace('.', '-')[:room]}-{digest}{after}"
