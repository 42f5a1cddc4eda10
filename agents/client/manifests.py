"""Jobs as manifests: read from YAML, made from options, or from an existing job. Pure, except reading."""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import re
import sys
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from agents.client.command_line import LAUNCHERS
from agents.client.errors import ManifestError
from agents.common.plain import MOST, plain
from agents.job import tags
from agents.job.fields import Fields, Settings
from agents.job.json_object import Body, Object, mapping, mappings, part
from agents.job.model import (
    GROUP,
    KUEUE_QUEUE,
    LAST_APPLIED,
    MPI_JOB,
    PREFIX,
    Dialect,
    Implementation,
    Job,
    Problem,
    Transport,
    annotation,
)
from agents.job.read import read as read_job
from agents.job.template import main_container
from agents.kube.kinds import MPI_JOB_T9K, MPI_JOB_V1, MPI_JOB_V2BETA1

_NAME_MAX = 40  # characters of a new job's name: host names of pods are made of it
_API_VERSIONS = {kind.api_version for kind in (MPI_JOB_V1, MPI_JOB_V2BETA1, MPI_JOB_T9K)}
_FAULTS = 3  # of an invalid job are named
_IGNORED_MAX = 16
_GENERATED = 5  # characters that the API server appends to a generateName, which it cuts to this length:
_BASE_MAX = 63 - _GENERATED
_AS_ROOT = tuple(f"{family}_ALLOW_RUN_AS_ROOT{end}" for family in ("OMPI", "PRTE") for end in ("", "_CONFIRM"))
_KEPT = frozenset({KUEUE_QUEUE, "kueue.x-k8s.io/priority-class"})  # of others' labels, by a job that is run again
_COUNTED = re.compile(r"(.*?)-(\d{1,4})")


def read_text(file: str) -> str:
    """Return a file's text, of stdin for `-`. Raises ManifestError if it can't be read, or is too large."""
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if file == "-" else open(file, "rb") as opened:
            data = opened.read(MOST + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{file}: can't be read: {error}") from None
    if len(data) > MOST:
        raise ManifestError(f"{file}: is larger than any API server would take")
    return text


def read(file: str, text: str | None = None) -> list[Body]:
    """Return the manifests of a YAML or JSON file (`-`: stdin), or of its `text` if given. Raises ManifestError."""
    text = read_text(file) if text is None else text
    try:
        found = plain(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise ManifestError(f"{file}: is no YAML: {error}") from None
    except (RecursionError, TypeError, ValueError) as error:
        raise ManifestError(f"{file}: is YAML that JSON can't express: {error}") from None
    if not found:
        raise ManifestError(f"{file}: has no manifest in it")
    for one in found:
        if not isinstance(one, dict) or not isinstance(one.get("metadata"), dict):
            raise ManifestError(f"{file}: a manifest is a mapping with apiVersion, kind and metadata")
    return found


@dataclass(frozen=True, slots=True)
class Options:
    """What a new job is made of. Per worker: `slots`, `gpus`, `cpu`, `memory`, `shm`; None and "" are not set.

    `template` is a job whose fields hold where nothing else is said. Where it says nothing either: transport exec, Open
    MPI, output with tags of ranks. `volumes` and `secrets` are mounted: path → claim, path → Secret. `time_s`: the job
    fails after so many seconds.
    """

    name: str
    image: str
    command: Sequence[str]
    ranks: int
    workers: int | None = None
    slots: int | None = None
    gpus: int | None = None
    cpu: str = ""
    memory: str = ""
    shm: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    queue: str = ""
    priority: str = ""
    time_s: int | None = None
    transport: Transport | None = None
    implementation: Implementation | None = None
    tags_output: bool | None = None
    template: Object | None = None


def new_job(options: Options, version: Dialect = Dialect.V1) -> Body:
    """Return the manifest of a job of kubeflow's API. Raises ManifestError if the numbers don't fit."""
    template = copy.deepcopy(dict(options.template or {}))
    if template and template.get("apiVersion") not in {f"{GROUP}/{one}" for one in (Dialect.V1, Dialect.V2BETA1)}:
        raise ManifestError("a template for new jobs must be an MPIJob of kubeflow.org/v1 or v2beta1")
    metadata, spec = mapping(template.get("metadata")), mapping(template.get("spec"))
    options = _completed(options, metadata, spec)
    replaced = {LAST_APPLIED, annotation("transport"), annotation("mpiImplementation"), annotation("tagOutput")}
    annotations = {key: text for key, text in part(metadata, "annotations").items() if key not in replaced}
    annotations[annotation("transport")] = str(options.transport)
    spec.pop("tagOutput", None)
    if options.tags_output:
        annotations[annotation("tagOutput")] = "true"
    labels = {**part(metadata, "labels")} | ({KUEUE_QUEUE: options.queue} if options.queue else {})
    policy = {"cleanPodPolicy": "Running", "backoffLimit": 0, **part(spec, "runPolicy")}
    policy |= {"activeDeadlineSeconds": options.time_s} if options.time_s is not None else {}
    roles = part(spec, "mpiReplicaSpecs")
    launcher = {"restartPolicy": "Never", **part(roles, "Launcher"), "replicas": 1}
    worker = {**part(roles, "Worker"), "replicas": options.workers}
    env = dict(options.env)
    if options.implementation is Implementation.OPEN_MPI:
        env = dict.fromkeys(_AS_ROOT, "1") | env  # most images' user is root, which Open MPI refuses otherwise
    main = main_name(template)
    launcher["template"] = _pod(launcher, main, options, env, _launch(options))
    worker["template"] = _pod(worker, main, options, options.env, None)
    named = {"name": options.name, "labels": labels, "annotations": annotations}
    return {
        "apiVersion": template.get("apiVersion") or f"{GROUP}/{version}",
        "kind": MPI_JOB,
        "metadata": {key: value for key, value in named.items() if value},
        "spec": {
            **spec,
            "slotsPerWorker": options.slots,
            "mpiImplementation": str(options.implementation),
            "runPolicy": policy,
            "mpiReplicaSpecs": {**roles, "Launcher": launcher, "Worker": worker},
        },
    }


def main_name(manifest: Object) -> str:
    """Return the name of the container that ranks run in, as the job gives it; "": the first one."""
    annotations = part(manifest, "metadata", "annotations")
    return str(annotations.get(annotation("mainContainer")) or part(manifest, "spec").get("mainContainer") or "")


def again(resource: Object, name: str) -> Body:
    """Return the manifest of a new job with the spec of one that was there, its queue and our settings.

    Other labels and annotations may make it one that Argo CD or Helm owns, or that has a workload already.
    """
    metadata: Body = {"name": name}
    for kind in ("labels", "annotations"):
        given = part(resource, "metadata", kind)
        metadata[kind] = {key: text for key, text in given.items() if key in _KEPT or key.startswith(PREFIX)}
    made = {"apiVersion": resource.get("apiVersion"), "kind": resource.get("kind"), "spec": resource.get("spec")}
    return {**copy.deepcopy(made), "metadata": {key: value for key, value in metadata.items() if value}}


def checked(manifest: Object, namespace: str) -> Body:
    """Return a manifest with its namespace. Raises ManifestError if it has another one, or is no valid MPIJob."""
    body = placed(manifest, namespace)
    found = parsed(body)
    if isinstance(found, tuple):
        name = body["metadata"].get("name") or body["metadata"].get("generateName")
        more = f" (and {len(found) - _FAULTS} more)" if len(found) > _FAULTS else ""
        raise ManifestError(f"job {name}: {'; '.join(map(str, found[:_FAULTS]))}{more}")
    return body


def ignored(manifest: Object) -> list[Problem]:
    """Return names that nothing reads: the API server drops such fields without a word, and the job runs."""
    found = parsed(manifest)
    return [] if isinstance(found, tuple) else [*found.ignored[:_IGNORED_MAX]]


def placed(manifest: Object, namespace: str) -> Body:
    """Return a manifest with its namespace. Raises ManifestError if it has another one, or is no MPIJob."""
    version = manifest.get("apiVersion")
    if manifest.get("kind") != "MPIJob" or version not in _API_VERSIONS:
        raise ManifestError(f"{manifest.get('kind')} of {version} is no MPIJob (`kubectl apply` creates others)")
    metadata = {**part(manifest, "metadata")}
    metadata["namespace"] = own = metadata.get("namespace") or namespace
    if own != namespace:
        raise ManifestError(
            f'the namespace from the provided object "{own}" does not match the namespace '
            f"\"{namespace}\". You must pass '--namespace={own}' to perform this operation."
        )
    return {**manifest, "metadata": metadata}


def parsed(manifest: Object) -> Job | tuple[Problem, ...]:
    """Return the job that a manifest with a namespace would be, or its problems."""
    return read_job({**manifest, "metadata": {"uid": "0", **named(part(manifest, "metadata"))}})


def named(metadata: Object) -> Body:
    """Return a manifest's metadata with a name: for generateName one such as the API server makes."""
    base = metadata.get("generateName")
    if metadata.get("name") or not isinstance(base, str) or not base:
        return {**metadata}
    return {**metadata, "name": f"{base[:_BASE_MAX]}{'0' * _GENERATED}"}


def next_name(name: str, taken: Sequence[str]) -> str:
    """Return the first of `pi-2`, `pi-3`, … that is not taken; `pi-2` itself is counted on."""
    found = _COUNTED.fullmatch(name)
    base, number = (found[1], int(found[2])) if found else (name, 1)
    names = (f"{base}-{count}" for count in range(number + 1, number + len(taken) + 2))
    return next(one for one in names if one not in taken)


def name_of(program: str, suffix: str) -> str:
    """Return a name for a job that runs this program; the suffix makes it unique."""
    plain = re.sub(r"[^a-z0-9]+", "-", os.path.basename(program).lower()).strip("-")[:_NAME_MAX].strip("-")
    return f"{plain if plain[:1].isalpha() else f'run-{plain}'.rstrip('-')}-{suffix}"


def _completed(options: Options, metadata: Object, spec: Object) -> Options:
    """Return the options with what the template says, and then the defaults, in place of those that are not given.

    There are as many workers as the ranks need, and one rank per GPU, else one per worker. Raises ManifestError.
    """
    problems: list[Problem] = []
    fields = Fields(spec, "spec", problems)
    given = Settings(fields, Fields(metadata.get("annotations"), "metadata.annotations", problems, is_map=True))
    role = fields.child("mpiReplicaSpecs", is_map=True).child("Worker")
    workers = options.workers or role.number("replicas", least=0)
    slots = options.slots or fields.number("slotsPerWorker", least=1)
    transport = options.transport or given.choice("transport", Transport) or Transport.EXEC
    implementation = options.implementation or given.choice("mpiImplementation", Implementation)
    tags_output = given.flag("tagOutput") if options.tags_output is None else options.tags_output
    has_launcher = bool(given.flag("runLauncherAsWorker"))
    if problems:
        raise ManifestError(f"the template: {'; '.join(map(str, problems[:_FAULTS]))}")
    slots = slots or (-(-options.ranks // workers) if workers else options.gpus or 1)
    workers = workers or -(-options.ranks // slots)
    if (workers + has_launcher) * slots < options.ranks:
        raise ManifestError(f"{options.ranks} ranks don't fit onto {workers} workers with {slots} slots each")
    return replace(
        options,
        workers=workers,
        slots=slots,
        transport=transport,
        implementation=implementation or Implementation.OPEN_MPI,
        tags_output=tags_output is not False,
    )


def _launch(options: Options) -> list[str]:
    """The launcher's command line: mpirun is put before a command that has none."""
    command = [literal(word) for word in options.command]
    if command and os.path.basename(command[0]) in LAUNCHERS:
        return command
    implementation = options.implementation or Implementation.OPEN_MPI
    given = ["-n", str(options.ranks), *(tags.OPTIONS[implementation] if options.tags_output else ())]
    if implementation is not Implementation.OPEN_MPI:
        return ["mpiexec", *given, *command]
    exported = [word for name in options.env for word in ("-x", name)]  # sshd starts daemons without them
    return ["mpirun", *given, *exported, *command]


def literal(text: str) -> str:
    """Return a text that Kubernetes, which replaces $(NAME) and $$, makes into this one."""
    return re.sub(r"\$\$+|\$(?=\([-.\w]+\))", lambda found: found[0] * 2, text)


def _pod(role: Object, name: str, options: Options, env: Mapping[str, str], command: list[str] | None) -> Body:
    """A role's pod template; `name` is the main container's, `command` the launcher's."""
    template = part(role, "template")
    spec = mapping(template.get("spec"))
    containers = mappings(spec.get("containers")) or [{"name": "mpi"}]
    old_main = main_container({"spec": {"containers": containers}}, name)
    main = {**old_main, "image": options.image}
    if command is not None:
        main = {key: value for key, value in main.items() if key != "args"} | {"command": command}
    if env:
        main["env"] = [one for one in mappings(main.get("env")) if one.get("name") not in env]
        main["env"] += [{"name": name, "value": literal(value)} for name, value in env.items()]
    if command is None and (resources := _resources(options)):
        given = part(main, "resources")
        main["resources"] = {kind: {**part(given, kind), **resources} for kind in ("requests", "limits")}
    there = mappings(spec.get("volumes"))
    volumes = _volumes(options, {str(one.get("name")) for one in there}, has_shm=command is None)
    if volumes:
        paths = {mount["mountPath"] for _, mount in volumes}
        mounts = [one for one in mappings(main.get("volumeMounts")) if one.get("mountPath") not in paths]
        main["volumeMounts"] = [*mounts, *(mount for _, mount in volumes)]
        spec = {**spec, "volumes": [*there, *(volume for volume, _ in volumes)]}
    if options.priority:
        spec = {**spec, "priorityClassName": options.priority}
    return {**template, "spec": {**spec, "containers": [main if one is old_main else one for one in containers]}}


def _resources(options: Options) -> dict[str, str]:
    gpus = "" if options.gpus is None else str(options.gpus)
    given = {"cpu": options.cpu, "memory": options.memory, "nvidia.com/gpu": gpus}
    return {name: text for name, text in given.items() if text}


def _volumes(options: Options, taken: Container[str], *, has_shm: bool) -> list[tuple[Body, Body]]:
    """Volumes, each with its mount; their names are none of those `taken`."""
    sources: list[tuple[str, dict[str, Any]]] = []
    sources += [(path, {"persistentVolumeClaim": {"claimName": claim}}) for path, claim in options.volumes.items()]
    sources += [(path, {"secret": {"secretName": name}}) for path, name in options.secrets.items()]
    if options.shm and has_shm:
        sources.append(("/dev/shm", {"emptyDir": {"medium": "Memory", "sizeLimit": options.shm}}))  # noqa: S108
    numbers = (number for number in itertools.count() if f"volume-{number}" not in taken)
    named = [(f"volume-{next(numbers)}", *one) for one in sources]
    return [({"name": name, **source}, {"name": name, "mountPath": path}) for name, path, source in named]
