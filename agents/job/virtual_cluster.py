"""Reads a VirtualCluster (mpi-agents.io/v1alpha1) into a `Job`, or into all its problems. Pure.

The nodes are the job's workers. The login pod is its launcher, which waits for users and never ends the job. What a
virtual cluster adds to their templates, shared memory and the DVM, is added here: the pod builders know nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agents.job.application import DVM_PATH, read_application
from agents.job.fields import INT64_MAX, Fields, Settings, read_name
from agents.job.json_object import Body, Object
from agents.job.model import (
    VIRTUAL_GROUP,
    Dialect,
    Job,
    Problem,
    RanksLost,
    Rbac,
    RestartPolicy,
    Role,
    RunPolicy,
    Tool,
    Transport,
)
from agents.job.run_mode import WAIT
from agents.job.ssh import read_ssh
from agents.job.t9k_launcher import launcher_template
from agents.job.template import (
    check_size,
    container_names,
    main_container,
    read_main_container,
    read_template,
    with_container,
)
from agents.job.worker_agent import read_worker_agent

API_VERSION = f"{VIRTUAL_GROUP}/v1alpha1"

MAX_NODES = 5000  # with more, the three hostfiles may be larger than a ConfigMap may be
_SHM_PATH, _SHM_SIZE, _SHM_VOLUME, _DVM_VOLUME = "/dev/shm", "1Gi", "mpi-agents-shm", "mpi-agents-dvm"  # noqa: S108

# The shell is process 1 and reaps. prte says "DVM ready" on stdout when all its daemons have reported, and the file
# stands for that: the container ends with prte, and the kubelet starts it again.
_DVM = f"""\
cd {DVM_PATH} && rm -f ready uri out && mkfifo out || exit 1
prte --report-uri {DVM_PATH}/uri "$@" >out & dvm=$!
while read -r line; do echo "$line"; [ "$line" != "DVM ready" ] || : >ready; done <out & reader=$!
trap 'kill -TERM $dvm' TERM
while wait $dvm; code=$?; kill -0 $dvm 2>/dev/null; do :; done
rm -f ready
(sleep 2; kill $reader 2>/dev/null) & wait $reader
exit $code
"""
# It waits for its answer: each "no" would be a Warning event of a healthy start.
_DVM_READY = {
    "exec": {"command": ["/bin/sh", "-c", f"until test -e {DVM_PATH}/ready; do sleep 1; done"]},
    "timeoutSeconds": 600,
}


def read_virtual(resource: Object) -> Job | tuple[Problem, ...]:
    """Return the job, or its problems. Any JSON value has one or the other."""
    problems: list[Problem] = []
    root = Fields(resource, "", problems)
    if root.text("apiVersion") != API_VERSION:
        root.add(f"must be {API_VERSION}", "apiVersion")
    metadata, spec = root.child("metadata"), root.child("spec")
    settings = Settings(spec, metadata.child("annotations", is_map=True))
    nodes = spec.child("nodes")
    if not nodes.is_given:
        nodes.add("is required")
    replicas = nodes.number("replicas", least=1, most=MAX_NODES) or 1
    node_template = read_template(nodes) if nodes.is_given else {}
    main = read_main_container(settings, node_template, "nodes")
    shm = _shared_memory(spec)
    dvm = spec.child("dvm")
    has_dvm, dvm_args = dvm.flag("enabled") is True, dvm.texts("args")
    command = ("/bin/sh", "-c", _DVM, "dvm", *dvm_args) if has_dvm else WAIT
    login_template = _login(spec, node_template, main, command)
    application = read_application(spec, node_template, login_template)
    if not problems:
        if application is not None:
            node_template = application.beside(node_template, main, is_login=False)
            login_template = application.beside(login_template, main, is_login=True)
        node_template, login_template = (_with_shm(one, shm) for one in (node_template, login_template))
        check_size(nodes, node_template, replicas)
        check_size(spec.child("login"), login_template, 1)
    job = Job(
        name=read_name(metadata, replicas, is_host=True, suffix=Dialect.VIRTUAL.worker_suffix),
        namespace=metadata.needed("namespace"),
        uid=metadata.needed("uid"),
        generation=metadata.number("generation", most=INT64_MAX) or 0,
        api_version=API_VERSION,
        dialect=Dialect.VIRTUAL,
        transport=settings.choice("transport", Transport) or Transport.EXEC,
        launcher=Role(1, RestartPolicy.ALWAYS, login_template),
        worker=Role(replicas, RestartPolicy.ALWAYS, node_template),
        policy=RunPolicy(is_suspended=spec.flag("suspend") is True),
        slots=nodes.number("slots", least=1) or 1,
        main_container=main,
        launcher_waits=True,
        ssh=read_ssh(settings, Dialect.VIRTUAL),
        rbac=settings.choice("rbac", Rbac) or Rbac.MANAGED,
        ranks_lost=RanksLost.IGNORE,
        worker_agent=read_worker_agent(settings),
        tools=settings.choices("tools", Tool),
        has_dvm=has_dvm,
        has_application=application is not None,
        annotations=settings.annotations,
        is_being_deleted=metadata.value.get("deletionTimestamp") is not None,
    )
    return tuple(problems) or replace(job, ignored=tuple(settings.ignored()))


def _login(spec: Fields, nodes: Object, main: str, command: Sequence[str]) -> Object:
    """Return the login pod's template: its own, or else the nodes' without what is theirs alone.

    `command`: of a main container that has none.
    """
    login, has_dvm = spec.child("login"), command is not WAIT
    own = read_template(login) if login.value.get("template") is not None else {}
    if spec.problems:
        return own
    first = str(main_container(nodes, main)["name"])
    template = own or launcher_template(nodes, first, command, {})
    container = dict(main_container(template, main))
    if own and has_dvm and (container.get("command") or container.get("args")):
        message = f'starts prte in container "{container["name"]}" of the login pod, which has a command of its own'
        spec.child("dvm").add(f"{message}: remove one of them", "enabled")
        return own
    if not container.get("command"):
        container = {key: value for key, value in container.items() if key != "args"} | {"command": list(command)}
    if not has_dvm:
        return with_container(template, container)
    container.setdefault("readinessProbe", _DVM_READY)
    volume = {"name": _DVM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    return _with_volume(with_container(template, container), volume, DVM_PATH, [str(container["name"])])


def _shared_memory(spec: Fields) -> str:
    """Return the size of /dev/shm; "" for none of ours."""
    size = spec.quantity("sharedMemory") or _SHM_SIZE
    if size.startswith("-"):
        spec.add("must be 0 or more", "sharedMemory")
    number = size.rstrip("KMGTPEimnuk").lower().partition("e")[0]
    return size if number.strip("+-0.") else ""


def _with_shm(template: Object, size: str) -> Object:
    """Return a template whose containers share /dev/shm of this size; one that mounts something there keeps that."""
    if not size:
        return template
    volume = {"name": _SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": size}}
    return _with_volume(template, volume, _SHM_PATH, container_names(template))


def _with_volume(template: Object, volume: Body, path: str, containers: Sequence[str]) -> Object:
    """Return a template in which these containers mount the volume, unless they mount another one there."""
    for one in template["spec"]["containers"]:
        mounts = one.get("volumeMounts", [])
        if one["name"] in containers and path not in {str(mount["mountPath"]).rstrip("/") for mount in mounts}:
            mount = {"name": volume["name"], "mountPath": path}
            template = with_container(template, {**one, "volumeMounts": [*mounts, mount]})
    spec = template["spec"]
    return {**template, "spec": {**spec, "volumes": [*spec.get("volumes", []), volume]}}
