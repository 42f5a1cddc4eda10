"""Our containers in the launcher's pod, hub and delivery, and the volumes that they share with the user's container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.job.model import LAUNCHER, Transport
from agents.operator.objects import guest, names, pod, resources, sshd, worker_agent
from agents.operator.objects.ssh import Ssh

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agents.job.model import Job
    from agents.operator.objects.user import User
    from agents.operator.settings import PodSettings

Body = dict[str, Any]

_TOKEN: Body = {
    "projected": {
        "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ]
    }
}
_POD_NAME, _POD_IPS = ("POD_NAME", "metadata.name"), ("POD_IPS", "status.podIPs")
_SSH_FILES = {name: mode for name, mode in pod.LAUNCHER_FILES.items() if name != "kubexec.sh"}
# A worker that was scaled away is missing until the kubelet renews the mounted hostfile, in a minute and a half. One
# that was lost is replaced at once.
_REPLACEMENT = "5m"


def add(job: Job, settings: PodSettings, spec: Body) -> None:
    """Add our containers behind the user's init containers. The user's container gets the job's files, and no token."""
    files = _SSH_FILES if job.transport is Transport.SSH else pod.LAUNCHER_FILES
    config = pod.add_volume(spec, names.CONFIG_VOLUME, pod.config_volume(job, files))
    by_transport = _by_ssh if job.transport is Transport.SSH else _by_exec
    guest.let_in(settings, spec, *by_transport(job, settings, spec, config))


def _by_exec(job: Job, settings: PodSettings, spec: Body, config: str) -> list[Body]:
    """Return hub and delivery, in this order: the hub starts while delivery waits."""
    tools = pod.add_volume(spec, names.TOOLS_VOLUME, {"emptyDir": {}})
    run = pod.add_volume(spec, names.RUN_VOLUME, {"emptyDir": {}})
    token = pod.add_volume(spec, names.TOKEN_VOLUME, _TOKEN)
    main = pod.main_container(job, spec)
    pod.mount(main, tools, names.TOOLS_PATH, is_read_only=True)
    pod.mount(main, config, names.CONFIG_PATH)
    pod.mount(main, run, names.RUN_PATH, is_read_only=True)

    hub, delivery = _hub(job, settings, spec), _delivery(job, settings, spec)
    pod.mount(hub, tools, names.TOOLS_PATH, is_read_only=True)
    pod.mount(delivery, tools, names.TOOLS_PATH)
    pod.mount(hub, run, names.RUN_PATH)
    for container in (hub, delivery):
        pod.mount(container, config, names.CONFIG_PATH)
        pod.mount(container, token, names.TOKEN_PATH, is_read_only=True)
    return [hub, delivery]


def _by_ssh(job: Job, settings: PodSettings, spec: Body, config: str) -> list[Body]:
    """Return delivery, which prepares ssh before it waits: one more container would be a second more.

    Where the launcher's command can wait inside its container, delivery is a sidecar: that is another second less.
    """
    ssh = Ssh(job, LAUNCHER, settings, spec)
    main = pod.main_container(job, spec)
    pod.mount(main, config, names.CONFIG_PATH)
    ssh.mount()
    delivery = _delivery(job, settings, spec, ssh.user)
    if sshd.waits_inside(job, main):
        sshd.let_wait(main)
        follows = {"MPI_SSH_FOLLOW": "true"} if worker_agent.has_agent(job, settings) else {}
        delivery["env"] += pod.variables({"MPI_AGENT_STAYS": "true", **follows})
        delivery["restartPolicy"] = "Always"
    ssh.let_prepare(delivery)
    pod.mount(delivery, config, names.CONFIG_PATH)
    return [delivery]


def _hub(job: Job, settings: PodSettings, spec: Body) -> Body:
    """Return the hub, a native sidecar. Clients wait for it, so no probe makes the start wait, too."""
    worker = pod.main_container(job, dict(job.worker.template["spec"]))["name"] if job.worker.template else ""
    return {
        **guest.container(names.HUB, settings, spec),
        "command": ["rshagent-hub", *(["--container", worker] if worker else [])],
        "env": _environment([_POD_NAME, _POD_IPS], {**_of_job(job), "MPI_AGENT_SLOTS": str(job.slots)}),
        "lifecycle": {"preStop": {"exec": {"command": ["rshagent-hub", "--ending"]}}},
        "resources": resources.of_ours(spec, settings, settings.hub_requests, settings.hub_limits),
        "restartPolicy": "Always",
    }


def _delivery(job: Job, settings: PodSettings, spec: Body, whose: User | None = None) -> Body:
    """Return delivery, by kubectl-delivery's name and with its variables. By ssh it asks no API, and copies nothing."""
    variables = {"MPI_AGENT_WAIT_REPLACEMENT": _REPLACEMENT}
    if settings.wait_timeout:
        variables["MPI_AGENT_WAIT_TIMEOUT"] = settings.wait_timeout
    if job.transport is Transport.EXEC:
        target = {"TARGET_DIR": names.TOOLS_PATH, "NAMESPACE": job.namespace}
        environment = _environment([_POD_NAME, _POD_IPS], {**_of_job(job), **target, **variables})
    else:
        waits = {} if sshd.is_expected(job) else {"MPI_AGENT_WAIT": "false"}
        environment = _environment([_POD_NAME], {"MPI_AGENT_TRANSPORT": "ssh", **variables, **waits})
    return {
        **guest.container(names.DELIVERY, settings, spec, whose),
        "command": ["mpi-delivery"],
        "env": environment,
        "resources": resources.of_ours(spec, settings, settings.delivery_requests, settings.delivery_limits),
    }


def _of_job(job: Job) -> dict[str, str]:
    return {"MPI_AGENT_LAUNCHER": job.launcher_name, "MPI_AGENT_SELECTOR": names.worker_selector(job)}


def _environment(fields: Sequence[tuple[str, str]], variables: Mapping[str, str]) -> list[Body]:
    """Return a container's variables, some of them fields of its pod.

    A host name is shared by the pods of a batch Job, and is the node's at times.
    """
    referring = ({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields)
    return [*referring, *pod.variables(variables)]
