"""A worker's Pod, with the container injected into it: the worker agent, or else the SSH setup."""

from __future__ import annotations

from agents.job.json_object import Body
from agents.job.model import PREFIX, WORKER, Dialect, Job, Transport, WorkerAgent
from agents.job.run_mode import WAIT
from agents.operator.objects import application, environment, injected, names, pod, sshd
from agents.operator.objects.sshd import Ssh
from agents.operator.settings import PodSettings


def worker(job: Job, index: int, settings: PodSettings) -> Body:
    """Return the pod of the worker with this index."""
    body = pod.from_template(job, job.worker, settings, names.pod_labels(job, WORKER, index))
    spec = body["spec"]
    pod.name_host(job, settings, spec, names.worker_hostname(job, index))
    main = pod.main_container(job, spec)
    pod.set_environment(main, environment.worker(job))
    if job.transport is Transport.SSH:
        sshd.set_command(job, main)
        sshd.declare_port(job, spec, main)
    else:
        _set_wait_command(job, main)
        # The agent's file for itself: Open MPI's daemons want to see it in workers as well, and never use it.
        config = pod.add_volume(spec, names.CONFIG_VOLUME, pod.config_volume(job, ["kubexec.sh"]))
        pod.mount(main, config, names.CONFIG_PATH)
    application.deliver(job, settings, spec)
    _add_agent(job, settings, spec)
    if job.debug is not None:  # what is started by hand is its user's to end
        body["metadata"]["annotations"].setdefault(ORDER, "debug")
    return pod.pod(job, job.worker_name(index), body, settings)


def _set_wait_command(job: Job, container: Body) -> None:
    """Have a container without a command wait. Arguments alone are no command in v1, and the image's in v2beta1."""
    if container.get("command") or (job.dialect is Dialect.V2BETA1 and container.get("args")):
        return
    container["command"] = list(WAIT)
    container.pop("args", None)


ORDER = f"{PREFIX}order"  # annotation of a worker's pod
_ORDERS: Body = {
    "downwardAPI": {"items": [{"path": "order", "fieldRef": {"fieldPath": f"metadata.annotations['{ORDER}']"}}]}
}
_PORT = 9470
_READY_S = 1
_ANSWER_S = 300  # for the agent's answer: it has none before sshd is up, or has failed


def _add_agent(job: Job, settings: PodSettings, spec: Body) -> None:
    """Add what a worker needs beside its own containers: with transport exec nothing, unless the agent is asked for."""
    ssh = Ssh(job, WORKER, settings, spec) if job.transport is Transport.SSH else None
    if ssh is not None:
        ssh.mount()
    if injected.has_worker_agent(job, settings):
        injected.inject(settings, spec, _agent(job, settings, spec, ssh))
    elif ssh is not None:
        injected.inject(settings, spec, _bootstrap(settings, spec, ssh))
    if job.worker_agent is WorkerAgent.PROCESSES and not spec.get("hostPID"):  # the API server refuses both
        spec.setdefault("shareProcessNamespace", True)


def _host_port(job: Job) -> int:
    """Return the port that the agent has on the nodes' network, where sshd has the one before or what the job says."""
    first = sshd.host_port(job)
    return first if job.ssh.port == first + 1 else first + 1


def _agent(job: Job, settings: PodSettings, spec: Body, ssh: Ssh | None) -> Body:
    """Return the agent, a native sidecar. What its hook prepares is there before any container behind it starts."""
    port = _host_port(job) if spec.get("hostNetwork") is True else _PORT
    orders = pod.add_volume(spec, names.ORDERS_VOLUME, _ORDERS)
    main = pod.main_container(job, spec)
    user = injected.user_of(main, spec, settings) if ssh is None else ssh.user
    made = injected.container(names.WORKER_AGENT, settings, spec, user)
    if job.worker_agent is WorkerAgent.PROCESSES and user.uid == injected.ROOT:
        # The kernel shows root's environment to those alone who have all capabilities of that process (ptrace(2)).
        capabilities = main.get("securityContext", {}).get("capabilities")
        made["securityContext"].pop("capabilities")
        made["securityContext"] |= {"capabilities": capabilities} if capabilities else {}
    container = {
        **made,
        "command": ["mpi-worker"],
        "env": pod.variables({"MPI_WORKER_PORT": str(port)}),
        "ports": [{"name": "mpi-worker", "containerPort": port, "protocol": "TCP"}],
        "restartPolicy": "Always",
    }
    if ssh is not None:
        ssh.prepare_in(container)
        if sshd.expects_sshd(job):
            asked = {"path": "/readyz?wait", "port": port}
            container["readinessProbe"] = {"httpGet": asked, "periodSeconds": _READY_S, "timeoutSeconds": _ANSWER_S}
    pod.mount(container, orders, names.ORDERS_PATH, is_read_only=True)
    return container


def _bootstrap(settings: PodSettings, spec: Body, ssh: Ssh) -> Body:
    container = {**injected.container(names.BOOTSTRAP, settings, spec, ssh.user), "command": ["sshd-bootstrap"]}
    ssh.prepare_in(container)
    return container
