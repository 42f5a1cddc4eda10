"""Our containers in the launcher's pod: hub and delivery, and the volumes that they share with the user's container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.operator.objects import names, pod, resources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agents.job.model import Job
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
_IMAGE_USER = 65532  # of our image
# A worker that was scaled away is missing until the kubelet renews the mounted hostfile, in a minute and a half. One
# that was lost is replaced at once.
_REPLACEMENT = "5m"


def add(job: Job, settings: PodSettings, spec: Body) -> None:
    """Add hub and delivery behind the user's init containers, delivery last: the hub starts while it waits.

    The user's container gets the client, the hub's socket and the job's files, and no token.
    """
    config = pod.add_volume(spec, names.CONFIG_VOLUME, pod.config_volume(job, pod.LAUNCHER_FILES))
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

    secrets = spec.get("imagePullSecrets", [])
    known = [one.get("name") for one in secrets]
    secrets = [*secrets, *({"name": name} for name in settings.image_pull_secrets if name not in known)]
    if secrets:
        spec["imagePullSecrets"] = secrets
    spec["initContainers"] = [*spec.get("initContainers", []), hub, delivery]


def _hub(job: Job, settings: PodSettings, spec: Body) -> Body:
    """Return the hub, a native sidecar. Clients wait for it, so no probe makes the start wait, too."""
    worker = pod.main_container(job, dict(job.worker.template["spec"]))["name"] if job.worker.template else ""
    return {
        **_container(names.HUB, settings, spec),
        "command": ["rshagent-hub", *(["--container", worker] if worker else [])],
        "env": _environment(job, {"MPI_AGENT_SLOTS": str(job.slots)}),
        "lifecycle": {"preStop": {"exec": {"command": ["rshagent-hub", "--ending"]}}},
        "resources": resources.of_ours(spec, settings, settings.hub_requests, settings.hub_limits),
        "restartPolicy": "Always",
    }


def _delivery(job: Job, settings: PodSettings, spec: Body) -> Body:
    """Return delivery, by kubectl-delivery's name and with its variables."""
    variables = {
        "TARGET_DIR": names.TOOLS_PATH,
        "NAMESPACE": job.namespace,
        "MPI_AGENT_WAIT_REPLACEMENT": _REPLACEMENT,
    }
    if settings.wait_timeout:
        variables["MPI_AGENT_WAIT_TIMEOUT"] = settings.wait_timeout
    return {
        **_container(names.DELIVERY, settings, spec),
        "command": ["mpi-delivery"],
        "env": _environment(job, variables),
        "resources": resources.of_ours(spec, settings, settings.delivery_requests, settings.delivery_limits),
    }


def _container(name: str, settings: PodSettings, spec: Body) -> Body:
    """Return what both have: nothing that Pod Security's level *restricted* would refuse."""
    taken = [one.get("name") for key in ("initContainers", "containers") for one in spec.get(key, [])]
    context: Body = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    user = settings.run_as_user
    if user is None and spec.get("securityContext", {}).get("runAsUser") == 0:
        user = _IMAGE_USER  # the platform assigns none, or the user's pod could not be root's
    if user is not None:
        context["runAsUser"] = user
    return {
        "name": names.free(name, taken),
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "securityContext": context,
    }


def _environment(job: Job, variables: Mapping[str, str]) -> list[Body]:
    """Return a container's variables. A host name is shared by the pods of a batch Job, and is the node's at times."""
    own = {"POD_NAME": "metadata.name", "POD_IPS": "status.podIPs"}
    return [
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in own.items()),
        {"name": "MPI_AGENT_LAUNCHER", "value": job.launcher_name},
        {"name": "MPI_AGENT_SELECTOR", "value": names.worker_selector(job)},
        *({"name": name, "value": value} for name, value in variables.items()),
    ]
