"""The launcher, a Pod or in v2beta1 a batch Job, with the containers injected into it: hub and delivery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.job.json_object import Body
from agents.job.model import LAUNCHER, Job, Tool, Transport
from agents.kube.kinds import BATCH_JOB
from agents.operator.objects import application, environment, injected, names, pod, rbac, sshd
from agents.operator.objects.config import launcher_files
from agents.operator.objects.injected import User
from agents.operator.objects.sshd import Ssh
from agents.operator.settings import PodSettings


def launcher(job: Job, settings: PodSettings) -> Body:
    """Return the launcher's Pod or batch Job."""
    template = _template(job, settings)
    if job.dialect.has_launcher_pod:
        return pod.pod(job, job.launcher_name, template, settings)
    # The operator handles deadline and time to live, as they hold for the workers too.
    spec: Body = {
        "podReplacementPolicy": "Failed",  # else two launchers may run at once (kubernetes/kubernetes#115844)
        "template": template,
    }
    if job.policy.backoff_limit is not None:
        spec["backoffLimit"] = job.policy.backoff_limit
    if job.policy.is_suspended:
        spec["suspend"] = True
    body = names.new_object(BATCH_JOB, job, job.launcher_name, settings)
    body["metadata"]["annotations"] = {**names.made_from(job, job.launcher), **_account(job)}
    return {**body, "spec": spec}


def _template(job: Job, settings: PodSettings) -> Body:
    body = pod.from_template(job, job.launcher, settings, names.pod_labels(job, LAUNCHER))
    body["metadata"]["annotations"] |= _account(job)
    spec = body["spec"]
    pod.name_host(job, settings, spec, names.launcher_hostname(job))
    if account := rbac.own_account(job) or ("" if rbac.service_account(job, settings) is None else job.launcher_name):
        spec["serviceAccountName"] = account
    pod.set_environment(pod.main_container(job, spec), environment.launcher(job))
    application.deliver(job, settings, spec)
    _add_agents(job, settings, spec)
    return body


def _account(job: Job) -> dict[str, str]:
    return {names.ACCOUNT: rbac.account(job)} if rbac.is_made(job) else {}


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
# A worker that was scaled away is missing until the kubelet renews the mounted hostfile, in a minute and a half. One
# that was lost is replaced at once.
_REPLACEMENT = "5m"


def _add_agents(job: Job, settings: PodSettings, spec: Body) -> None:
    """Add our containers behind the user's init containers. The user's container gets the job's files, and no token."""
    config = pod.add_volume(spec, names.CONFIG_VOLUME, pod.config_volume(job, launcher_files(job)))
    by_transport = _with_ssh if job.transport is Transport.SSH else _with_exec
    injected.inject(settings, spec, *by_transport(job, settings, spec, config))


def _with_exec(job: Job, settings: PodSettings, spec: Body, config: str) -> list[Body]:
    """Return hub and delivery, in this order: the hub starts while delivery waits."""
    main = pod.main_container(job, spec)
    copied = _mount_tools(job, settings, spec, main)
    run = pod.add_volume(spec, names.RUN_VOLUME, {"emptyDir": {}})
    token = pod.add_volume(spec, names.TOKEN_VOLUME, _TOKEN)
    pod.mount(main, config, names.CONFIG_PATH)
    pod.mount(main, run, names.RUN_PATH, is_read_only=True)

    hub, delivery = _hub(job, settings, spec), _delivery(job, settings, spec)
    if copied:
        pod.mount(hub, copied, names.TOOLS_PATH, is_read_only=True)
        pod.mount(delivery, copied, names.TOOLS_PATH)
    else:
        pod.mount(delivery, run, names.RUN_PATH)
    pod.mount(hub, run, names.RUN_PATH)
    for container in (hub, delivery):
        pod.mount(container, config, names.CONFIG_PATH)
        pod.mount(container, token, names.TOKEN_PATH, is_read_only=True)
    return [hub, delivery]


def _with_ssh(job: Job, settings: PodSettings, spec: Body, config: str) -> list[Body]:
    """Return delivery, which prepares ssh before it waits: one more container would be a second more.

    Where the launcher's command can wait inside its container, delivery is a sidecar: that is another second less.
    """
    ssh = Ssh(job, LAUNCHER, settings, spec)
    main = pod.main_container(job, spec)
    pod.mount(main, config, names.CONFIG_PATH)
    ssh.mount()
    delivery = _delivery(job, settings, spec, ssh.user)
    if sshd.waits_inside(job, main):
        main["command"] = [names.SSHD_START, "--when-ready", *main["command"]]  # until delivery opens the start gate
        follows = {"MPI_SSH_FOLLOW": "true"} if injected.has_worker_agent(job, settings) else {}
        delivery["env"] += pod.variables({"MPI_AGENT_STAYS": "true", **follows})
        delivery["restartPolicy"] = "Always"
    ssh.prepare_in(delivery)
    pod.mount(delivery, config, names.CONFIG_PATH)
    if tools(job, settings) and (copied := _mount_tools(job, settings, spec, main)):
        pod.mount(delivery, copied, names.TOOLS_PATH)
    return [delivery]


def _mount_tools(job: Job, settings: PodSettings, spec: Body, main: Body) -> str:
    """Mount the tools in the user's container; return the volume that delivery must copy them into, "" for none."""
    if settings.has_image_volumes:
        image, folder = settings.image, names.IMAGE_KUBE
        if Tool.KUBECTL in tools(job, settings):
            image, folder = settings.image_with_kubectl, names.IMAGE_TOOLS
        volume = injected.add_image_volume(settings, spec, image)
        pod.mount(main, volume, names.TOOLS_PATH, folder=folder, is_read_only=True)
        return ""
    volume = pod.add_volume(spec, names.TOOLS_VOLUME, {"emptyDir": {}})
    pod.mount(main, volume, names.TOOLS_PATH, is_read_only=True)
    return volume


def _hub(job: Job, settings: PodSettings, spec: Body) -> Body:
    """Return the hub, a native sidecar. Clients wait for it, so no probe makes the start wait, too."""
    hosts = {"MPI_AGENT_HOSTS": f"{names.RUN_PATH}/hosts"} if settings.has_image_volumes else {}
    worker = pod.main_container(job, dict(job.worker.template["spec"]))["name"] if job.worker.template else ""
    return {
        **injected.container(names.HUB, settings, spec),
        "command": ["rshagent-hub", *(["--container", worker] if worker else [])],
        "env": _environment([_POD_NAME, _POD_IPS], {**_of_job(job), "MPI_AGENT_SLOTS": str(job.slots), **hosts}),
        "lifecycle": {"preStop": {"exec": {"command": ["rshagent-hub", "--ending"]}}},
        "restartPolicy": "Always",
    }


def _delivery(job: Job, settings: PodSettings, spec: Body, user: User | None = None) -> Body:
    """Return delivery, by kubectl-delivery's name and with its variables.

    With SSH it uses no API and copies only the job's tools: there is no hub for a client.
    """
    variables = {"MPI_AGENT_WAIT_REPLACEMENT": _REPLACEMENT}
    if settings.wait_timeout:
        variables["MPI_AGENT_WAIT_TIMEOUT"] = settings.wait_timeout
    if job.transport is Transport.EXEC:
        folder = names.RUN_PATH if settings.has_image_volumes else names.TOOLS_PATH
        target = {"TARGET_DIR": folder, "NAMESPACE": job.namespace}
        environment = _environment([_POD_NAME, _POD_IPS], {**_of_job(job), **target, **variables})
    else:
        waits = {} if sshd.expects_sshd(job) else {"MPI_AGENT_WAIT": "false"}
        environment = _environment([_POD_NAME], {"MPI_AGENT_TRANSPORT": "ssh", **variables, **waits})
    copied = _copied(job, settings)
    return {
        **injected.container(names.DELIVERY, settings, spec, user),
        **({"image": settings.image_with_kubectl} if str(Tool.KUBECTL) in copied else {}),
        "command": ["mpi-delivery", *copied],
        "env": environment,
    }


def tools(job: Job, settings: PodSettings) -> tuple[Tool, ...]:
    """Return which further tools the launcher has."""
    return settings.tools if job.tools is None else job.tools


def _copied(job: Job, settings: PodSettings) -> list[str]:
    """Return what delivery copies: scripts that call kubectl get our client by that name, or the real one."""
    if settings.has_image_volumes:
        return [] if job.transport is Transport.SSH else ["none"]
    asked = [str(tool) for tool in tools(job, settings)]
    if job.transport is Transport.SSH:
        return asked
    return ["client", *(asked if str(Tool.KUBECTL) in asked else [*asked, "client:kubectl"])]


def _of_job(job: Job) -> dict[str, str]:
    return {"MPI_AGENT_LAUNCHER": job.launcher_name, "MPI_AGENT_SELECTOR": names.worker_selector(job.uid)}


def _environment(fields: Sequence[tuple[str, str]], variables: Mapping[str, str]) -> list[Body]:
    """Return a container's variables, some of them fields of its pod.

    A host name is shared by the pods of a batch Job, and is the node's at times.
    """
    referring = ({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields)
    return [*referring, *pod.variables(variables)]
