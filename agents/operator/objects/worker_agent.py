"""Our container in a worker's pod: the worker agent, or where it is left out what prepares ssh once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.job.model import PREFIX, WORKER, Transport
from agents.operator.objects import guest, names, pod, resources, sshd, user
from agents.operator.objects.ssh import Ssh

if TYPE_CHECKING:
    from agents.job.model import Job
    from agents.operator.settings import PodSettings

Body = dict[str, Any]

ORDER = f"{PREFIX}order"  # annotation of a worker's pod
_ORDERS: Body = {
    "downwardAPI": {"items": [{"path": "order", "fieldRef": {"fieldPath": f"metadata.annotations['{ORDER}']"}}]}
}
_PORT = 9470
_READY_S = 1


def add(job: Job, settings: PodSettings, spec: Body) -> None:
    """Add what a worker needs beside its own containers: in a job by exec nothing, unless the agent is asked for."""
    ssh = Ssh(job, WORKER, settings, spec) if job.transport is Transport.SSH else None
    if ssh is not None:
        ssh.mount()
    if has_agent(job, settings):
        guest.let_in(settings, spec, _agent(job, settings, spec, ssh))
    elif ssh is not None:
        guest.let_in(settings, spec, _bootstrap(settings, spec, ssh))


def has_agent(job: Job, settings: PodSettings) -> bool:
    """Return whether the workers have the agent: as the job says, else by ssh, if the operator is told so."""
    if job.has_worker_agent is not None:
        return job.has_worker_agent
    return job.transport is Transport.SSH and settings.has_worker_agent


def _host_port(job: Job) -> int:
    """Return the port that the agent has on the nodes' network, where sshd has the one before or what the job says."""
    first = sshd.host_port(job)
    return first if job.ssh.port == first + 1 else first + 1


def _agent(job: Job, settings: PodSettings, spec: Body, ssh: Ssh | None) -> Body:
    """Return the agent, a native sidecar. What its hook prepares is there before any container behind it starts."""
    port = _host_port(job) if spec.get("hostNetwork") is True else _PORT
    orders = pod.add_volume(spec, names.ORDERS_VOLUME, _ORDERS)
    whose = user.user(pod.main_container(job, spec), spec, settings) if ssh is None else ssh.user
    container = {
        **guest.container(names.WORKER_AGENT, settings, spec, whose),
        "command": ["mpi-worker"],
        "env": pod.variables({"MPI_WORKER_PORT": str(port)}),
        "ports": [{"name": "mpi-worker", "containerPort": port, "protocol": "TCP"}],
        "resources": resources.of_ours(spec, settings, settings.worker_agent_requests, settings.worker_agent_limits),
        "restartPolicy": "Always",
    }
    if ssh is not None:
        ssh.let_prepare(container)
        if sshd.is_expected(job):
            container["readinessProbe"] = {"httpGet": {"path": "/readyz", "port": port}, "periodSeconds": _READY_S}
    pod.mount(container, orders, names.ORDERS_PATH, is_read_only=True)
    return container


def _bootstrap(settings: PodSettings, spec: Body, ssh: Ssh) -> Body:
    container = {
        **guest.container(names.BOOTSTRAP, settings, spec, ssh.user),
        "command": ["sshd-bootstrap"],
        "resources": resources.of_ours(spec, settings, settings.bootstrap_requests, settings.bootstrap_limits),
    }
    ssh.let_prepare(container)
    return container
