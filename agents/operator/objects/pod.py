"""What launcher and worker pods have in common: the user's template, and what is added to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agents.job.application import WRAP
from agents.job.json_object import Body
from agents.job.model import Dialect, Job, RestartPolicy, Role, Transport
from agents.kube.kinds import POD
from agents.operator.objects import names, pod_group
from agents.operator.settings import PodSettings

_MOUNTS = ("volumeMounts", "volumeDevices")
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_DEFAULT_DOMAIN = "cluster.local"


def from_template(job: Job, role: Role, settings: PodSettings, labels: dict[str, str]) -> Body:
    """Return metadata and spec of a role's pods: the user's template with our labels and annotations."""
    given = role.template.get("metadata", {})
    spec = _copied(role.template["spec"])
    annotations = {**settings.annotations, _DEFAULT_CONTAINER: main_container(job, spec)["name"]}
    annotations |= given.get("annotations", {})
    annotations |= names.made_from(job, role)
    body: Body = {
        "metadata": {"labels": {**given.get("labels", {}), **labels}, "annotations": annotations},
        "spec": spec,
    }
    policy = role.restart_policy
    spec["restartPolicy"] = str(RestartPolicy.NEVER if policy is RestartPolicy.EXIT_CODE else policy)
    # An absent one is the default, by which Kubernetes mounts a token into every container.
    spec.setdefault("automountServiceAccountToken", False)
    for container in (one for key in ("initContainers", "containers") for one in spec.get(key) or ()):
        container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")  # its last lines outlive the pod
    pod_group.join(job, settings, body)
    return body


def pod(job: Job, name: str, template: Body, settings: PodSettings) -> Body:
    """Return the Pod of this name, which belongs to the job, from metadata and spec (`from_template`)."""
    owners = [names.owner_reference(POD, job, settings)]
    metadata = {"name": name, "namespace": job.namespace, **template["metadata"], "ownerReferences": owners}
    return {"apiVersion": POD.api_version, "kind": POD.name, "metadata": metadata, "spec": template["spec"]}


def _copied(value: Any) -> Any:
    """Return a copy of a part of JSON, in a quarter of the time that `copy.deepcopy` takes."""
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value


def main_container(job: Job, spec: Body) -> Body:
    """Return the container in which the job's launcher or daemons run: the one the job names, else the first."""
    containers: list[Body] = spec["containers"]
    return next((one for one in containers if one["name"] == job.main_container), containers[0])


def containers(spec: Body) -> list[Body]:
    """Return all containers of a pod."""
    return [one for key in ("initContainers", "containers", "ephemeralContainers") for one in spec.get(key) or ()]


def name_host(job: Job, settings: PodSettings, spec: Body, hostname: str) -> None:
    """Give a pod its name in DNS, and let it find the others by their short names.

    kubeflow's v1 left names to the template, v2beta1 overwrites what the template has: ssh has to find the workers.
    """
    chosen = {"hostname": hostname, "subdomain": names.service_name(job)}
    is_found_by_name = job.dialect is Dialect.V2BETA1 or job.transport is Transport.SSH
    spec |= chosen if is_found_by_name else {**chosen, **{key: spec[key] for key in chosen if key in spec}}
    if spec.get("hostNetwork"):
        spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    domain = settings.cluster_domain or _DEFAULT_DOMAIN
    search = f"{names.service_name(job)}.{job.namespace}.svc.{domain}"
    config = spec.setdefault("dnsConfig", {})
    config["searches"] = list(dict.fromkeys([*config.get("searches", []), search]))


def set_environment(container: Body, found: Mapping[str, str]) -> None:
    """Add variables; those that the user has set stay as they are."""
    given = container.get("env", [])
    known = {one["name"] for one in given}
    added = variables({name: value for name, value in found.items() if name not in known})
    if added:
        container["env"] = [*given, *added]


def variables(values: Mapping[str, str]) -> list[Body]:
    """Return variables as a container has them."""
    return [{"name": name, "value": value} for name, value in values.items()]


def add_volume(spec: Body, name: str, source: Body) -> str:
    """Add a volume; return its name, which is another one if the user's template has or mounts a volume of that name.

    What a container mounts and the template does not define stays undefined: ours may be a token or a private key.
    """
    volumes = spec.get("volumes", [])
    mounted = [one for container in containers(spec) for key in _MOUNTS for one in container.get(key) or ()]
    chosen = names.unique(name, [one.get("name") for one in (*volumes, *mounted)])
    spec["volumes"] = [*volumes, {"name": chosen, **source}]
    return chosen


def config_volume(job: Job, files: Iterable[str]) -> Body:
    """Return the volume that has these files of the ConfigMap."""
    items = [
        {"key": name, "path": name, "mode": 0o555 if name.endswith(".sh") or name == WRAP else 0o444} for name in files
    ]
    return {"configMap": {"name": job.config_name, "items": items}}


def mount(container: Body, volume: str, path: str, *, folder: str = "", is_read_only: bool = False) -> None:
    """Mount a volume, or a folder or file of it, unless the user has mounted something there."""
    mounts = container.get("volumeMounts", [])
    if path.rstrip("/") not in {one.get("mountPath", "").rstrip("/") for one in mounts}:
        added: Body = {"name": volume, "mountPath": path}
        added |= {"subPath": folder} if folder else {}
        container["volumeMounts"] = [*mounts, added | ({"readOnly": True} if is_read_only else {})]
