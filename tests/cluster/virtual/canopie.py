"""A virtual cluster of the shape that CANOPIE-HPC 2022's kustomizations `kubectl` and `ssh` have, with our image.

What those say counts: users, commands, the wait's arguments, names of variables, rights. The resources are a small
machine's, and images are taken as they are on the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cluster.images import image
from tests.cluster.manifests import ONE_MACHINE

if TYPE_CHECKING:
    from collections.abc import Sequence

Object = dict[str, Any]

SERVICE, NODES, LOGIN = "hpc-cluster", "hpc-cn", "hpc-cluster-login"
_APP = {"app": "hpc-compute-nodes"}
_NODE = {**_APP, "hpcnode": "compute-node", "hpcjob": "test"}
_USER = {"runAsUser": 998, "runAsGroup": 995, "fsGroup": 995}
_ROOT = {"runAsUser": 0, "runAsGroup": 0, "fsGroup": 0}
_ETC = {"name": "mpi-hostfile", "mountPath": "/opt/hpc/etc"}
_AGENT = "/opt/k8s/bin/kubexec.sh"
DEVICE = "github.com/fuse"
_STORAGE = "/home/mpiuser/.local/share/containers"


def objects(namespace: str, transport: str, replicas: int) -> list[Object]:
    """All its objects. `transport`: kubectl or ssh."""
    is_ssh = transport == "ssh"
    env = {"SHELL": "/bin/bash", **ONE_MACHINE}
    env |= {} if is_ssh else {"OMPI_MCA_plm_rsh_agent": _AGENT, "PRTE_MCA_plm_rsh_agent": _AGENT}
    hostfile = "/opt/hpc/etc/hostfile_ip" if is_ssh else "/opt/hpc/etc/hostfile"
    hostfiles = {"OMPI_MCA_orte_default_hostfile": hostfile, "PRTE_MCA_prte_default_hostfile": hostfile}
    sshd = {"command": ["/usr/sbin/sshd"], "args": ["-D"], "ports": [{"containerPort": 2222}]}
    node = _container("k8s-compute", env) | (sshd if is_ssh else {})
    login = _container("login", env | hostfiles) | {
        "workingDir": "/home/mpiuser",
        "volumeMounts": [_ETC, {"name": "dev-shm", "mountPath": "/dev/shm"}],
    }
    waiter = {
        "name": "job-waiter",
        "image": image("canopie"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["timeout"],
        "args": ["120", "/opt/k8s/bin/k8s-wait-for-pods.sh", str(replicas), namespace,
                 "hpcnode=compute-node,hpcjob=test", SERVICE, NODES,
                 "/opt/hpc/etc/hostfile", "/opt/hpc/etc/hostfile_ip"],
        "volumeMounts": [_ETC],
    }  # fmt: skip
    volumes = [
        {"name": "dev-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "mpi-hostfile", "emptyDir": {}},
    ]
    log_in = _pod(namespace, _USER, [login]) | {
        "restartPolicy": "OnFailure", "initContainers": [waiter], "volumes": volumes,
    }  # fmt: skip
    of_nodes = {
        "podManagementPolicy": "Parallel",
        "replicas": replicas,
        "serviceName": SERVICE,
        "selector": {"matchLabels": _NODE},
        "template": {"metadata": {"labels": _NODE}, "spec": _pod(namespace, _ROOT if is_ssh else _USER, [node])},
    }
    labels = {**_APP, "hpcnode": "login-node"}
    of_login = {"backoffLimit": 4, "template": {"metadata": {"labels": labels}, "spec": log_in}}
    return [
        *_rights(namespace),
        _object("v1", "Service", SERVICE, spec={"selector": _APP, "clusterIP": "None"}),
        _object("apps/v1", "StatefulSet", NODES, spec=of_nodes),
        _object("batch/v1", "Job", LOGIN, spec=of_login),
    ]


def with_podman(made: Sequence[Object], podman: str) -> Sequence[Object]:
    """The same objects, changed as `-with-podman` (`privileged`) and `-with-podman-unpriv` (`device`) patch it.

    `unprivileged` has no device: its storage is a volume, as overlay can't be mounted over the container's own overlay.
    """
    for one in made:
        if one["kind"] not in ("StatefulSet", "Job"):
            continue
        pod = one["spec"]["template"]["spec"]
        for container in pod["containers"]:
            container["image"] = image("canopie-podman")
            if podman == "privileged":
                container["securityContext"] = {"privileged": True}
            if podman == "device":
                container["resources"] = {"limits": {DEVICE: 1}}
            else:
                mounts = container.get("volumeMounts", ())
                container["volumeMounts"] = [*mounts, {"name": "podman", "mountPath": _STORAGE}]
        if podman != "device":
            pod["volumes"] = [*pod.get("volumes", ()), {"name": "podman", "emptyDir": {}}]
        pod["securityContext"] = {**pod["securityContext"], "fsGroup": _USER["fsGroup"]}
        if one["kind"] == "Job":
            env = {"PMIX_MCA_psec": "none", "PRTE_MCA_schizo_proxy": "ompi"}
            pod["containers"][0]["env"] += [{"name": name, "value": value} for name, value in env.items()]
    return made


def _rights(namespace: str) -> list[Object]:
    """Theirs are a ClusterRole, which no test would leave behind: the same rules."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
    ]
    role = {"kind": "Role", "name": "hpc-service-exec", "apiGroup": "rbac.authorization.k8s.io"}
    subject = {"kind": "ServiceAccount", "name": "pmix-user", "namespace": namespace}
    return [
        _object("v1", "ServiceAccount", "pmix-user"),
        _object("rbac.authorization.k8s.io/v1", "Role", role["name"], rules=rules),
        _object("rbac.authorization.k8s.io/v1", "RoleBinding", "read-pods", roleRef=role, subjects=[subject]),
    ]


def _container(name: str, env: dict[str, str]) -> Object:
    return {
        "name": name,
        "image": image("canopie"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["/opt/k8s/bin/pause"],
        "env": [{"name": one, "value": value} for one, value in env.items()],
    }


def _pod(namespace: str, user: Object, containers: Sequence[Object]) -> Object:
    return {
        "serviceAccountName": "pmix-user",
        "securityContext": user,
        "dnsConfig": {"searches": [f"{SERVICE}.{namespace}"]},
        "terminationGracePeriodSeconds": 2,
        "containers": [*containers],
    }


def _object(api_version: str, kind: str, name: str, **fields: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}
