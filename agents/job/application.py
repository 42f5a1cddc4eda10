"""`spec.application` of a VirtualCluster: containers beside the runtime's, and what both need to find each other. Pure.

All of it is in one folder, which all of a pod's containers mount: our two programs (an init container copies them, see
`agents.operator.objects.application`), the runners' sockets, and the session directories of PRRTE and PMIx, by which
ranks find their daemon and `prun` finds the DVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from agents.job.fields import Fields, is_label
from agents.job.json_object import Body, Object, part
from agents.job.t9k_launcher import without_devices
from agents.job.template import container_names, main_container, read_containers

FOLDER = "/run/mpi-app"
DVM_PATH = "/run/mpi-dvm"  # in the login pod: `uri`, and `ready` when prte is ready
VOLUME = "mpi-agents-app"
RUNNER, WRAP = "mpi-runner", "mpi-wrap"
_WRAP_PATH = f"/usr/local/bin/{WRAP}"  # in the runtime's container: one file, as images have their own there
_SESSIONS = {"PMIX_SERVER_TMPDIR": FOLDER, "PMIX_SYSTEM_TMPDIR": FOLDER}
_RUNTIME = {**_SESSIONS, "PRTE_MCA_prte_tmpdir_base": FOLDER}
# Of the runtime's securityContext: who it is, and what it gives up. What it has beyond that, an application needs not.
_SHARED = ("runAsUser", "runAsGroup", "runAsNonRoot")
_PROFILES = ("seccompProfile", "appArmorProfile")


class Wrap(StrEnum):
    """Which programs run in an application container: those started by mpi-wrap, or all."""

    EXPLICIT = "explicit"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Application:
    """The application containers, as they were given."""

    containers: tuple[Object, ...]
    wrap: Wrap

    def beside(self, template: Object, main: str, *, is_login: bool) -> Object:
        """Return a template with them beside its main container. On the login pod they have no devices."""
        spec, main_one = template["spec"], main_container(template, main)
        runtime = _in_known_group(main_one, spec.get("securityContext", {}))
        found = [without_devices(one) if is_login else one for one in self.containers]
        volume = {"name": VOLUME, "emptyDir": {}}
        containers = [self._runtime(runtime) if one is main_one else one for one in spec["containers"]]
        containers += [_application(one, runtime) for one in found]
        return {**template, "spec": {**spec, "containers": containers, "volumes": [*spec.get("volumes", []), volume]}}

    def _runtime(self, container: Object) -> Body:
        env = dict(_RUNTIME)
        if self.wrap is Wrap.ALWAYS:
            first = str(self.containers[0]["name"])
            env |= {"PRTE_MCA_odls_base_exec_agent": _WRAP_PATH, "MPI_WRAP_CONTAINER": first}
        wrap = {"name": VOLUME, "mountPath": _WRAP_PATH, "subPath": WRAP, "readOnly": True}
        return _mounted(container, env, wrap)


def read_application(spec: Fields, *templates: Object) -> Application | None:
    """Return the application containers to add to the pods of these templates; None for none."""
    given = spec.child("application")
    wrap = given.choice("wrap", Wrap) or Wrap.EXPLICIT
    if not given.is_given:
        return None
    containers = read_containers(given, "containers")
    if given.is_object and given.value.get("containers") in (None, []):
        given.add("must have at least one container", "containers")
    taken = {name for one in templates for name in container_names(one, "containers", "initContainers")}
    for one in containers:
        if one.value.get("image") in (None, ""):
            one.add("is required", "image")
        name = str(one.value.get("name") or "")
        for key in ("command", "args"):
            if one.value.get(key):
                one.add(f"can't be given: {RUNNER} is the command, and {WRAP} starts programs", key)
        if name in taken:
            one.add(f'"{name}" is there already: each container of a pod has its own name', "name")
        elif name and not is_label(name):
            one.add("must be 1 to 63 of a-z, 0-9 and '-', with a letter or digit at each end", "name")
        taken.add(name)
    return Application(tuple(one.value for one in containers), wrap)


def _application(container: Object, runtime: Object) -> Body:
    """Return a container that runs programs for mpi-wrap: as the runtime's user, unless it names one."""
    command = [f"{FOLDER}/{RUNNER}", "--socket", f"{FOLDER}/{container['name']}.sock"]
    context = runtime.get("securityContext", {})
    own = container.get("securityContext", _narrowed(context))
    own = {key: context[key] for key in ("runAsGroup",) if key in context} | dict(own)
    dvm = [one for one in runtime.get("volumeMounts", []) if one["mountPath"] == DVM_PATH]
    container = {**container, "command": command, **({"securityContext": own} if own else {})}
    return _mounted(container, _SESSIONS, *dvm)


def _narrowed(context: Object) -> Body:
    found = {key: context[key] for key in _SHARED if key in context}
    found |= {key: context[key] for key in _PROFILES if part(context, key).get("type") not in (None, "Unconfined")}
    if level := part(context, "seLinuxOptions").get("level"):  # by which they share volumes
        found["seLinuxOptions"] = {"level": level}
    if context.get("allowPrivilegeEscalation") is False:
        found["allowPrivilegeEscalation"] = False
    if dropped := part(context, "capabilities").get("drop"):
        found["capabilities"] = {"drop": dropped}
    return found


def _in_known_group(container: Object, pod: Object) -> Object:
    """Return the container with its group, where its user is known: by default a group is the image's choice.

    A rank of another group than its daemon's has the daemon's PMIx 5 hang (Debian 13's 5.0.7).
    """
    own = container.get("securityContext", {})
    group = own.get("runAsGroup", pod.get("runAsGroup", own.get("runAsUser", pod.get("runAsUser"))))
    return container if group is None else {**container, "securityContext": {**own, "runAsGroup": group}}


def _mounted(container: Object, env: Mapping[str, str], *mounts: Object) -> Body:
    """Return a container with the folder, and with these variables unless it has its own."""
    given = container.get("env", [])
    known = {one["name"] for one in given}
    added = [{"name": name, "value": value} for name, value in env.items() if name not in known]
    mounted = [*container.get("volumeMounts", []), {"name": VOLUME, "mountPath": FOLDER}, *mounts]
    return {**container, "env": [*given, *added], "volumeMounts": mounted}
