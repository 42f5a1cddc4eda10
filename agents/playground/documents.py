"""YAML files' manifests, the MPIJobs among them, and how those can run in a cluster of one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from agents.common.plain import plain
from agents.job.model import PREFIX, Dialect, Job, Transport
from agents.job.read import read as read_job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


Object = dict[str, Any]

_KINDS = {("kubeflow.org", "MPIJob"), ("batch.tensorstack.dev", "MPIJob"), ("mpi-agents.io", "VirtualCluster")}
_UID = "00000000-0000-0000-0000-000000000000"  # the API server gives each job its own


class DocumentError(Exception):
    """What is wrong with the files: a line each."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


def read(files: Sequence[str]) -> list[tuple[str, Object]]:
    """Return the files' manifests, each with its file's name; "-" is stdin. Raises DocumentError."""
    return [(name, body) for name in files for body in _read(name)]


def jobs(found: Sequence[tuple[str, Object]], namespace: str = "default") -> list[Job]:
    """Return the jobs that manifests make, in `namespace` if they name none. Raises DocumentError."""
    made: list[Job] = []
    wrong: list[str] = []
    for name, body in found:
        if not is_job(body):
            continue
        job = job_of(body, namespace)
        if isinstance(job, tuple):
            title = (body.get("metadata") or {}).get("name", "(without a name)")
            wrong += [f"{name}: job {title}: {problem}" for problem in job]
        else:
            made.append(job)
    if wrong:
        raise DocumentError(wrong)
    if not made:
        raise DocumentError(["neither an MPIJob nor a VirtualCluster is in the files"])
    return made


def is_job(body: Object) -> bool:
    """Whether a manifest is an MPIJob's, or a VirtualCluster's."""
    return (str(body.get("apiVersion")).partition("/")[0], body.get("kind")) in _KINDS


def job_of(body: Object, namespace: str = "default") -> Job | tuple[Any, ...]:
    """Return the job that a manifest makes, or its problems."""
    given = body.get("metadata")
    metadata = given if isinstance(given, dict) else {}
    # What an MPIJob has once it is made.
    made = {**body, "metadata": {"uid": _UID, **metadata, "namespace": metadata.get("namespace") or namespace}}
    return read_job(made, served=str(body.get("apiVersion")).rpartition("/")[2])


def adapted(body: Object) -> tuple[Object, list[str]]:
    """Return a manifest as it can be applied here, where pods have this machine's programs and no images.

    And how it differs from the one that was given, a line each. What the operator has to refuse is left to it.
    """
    job = job_of(body) if is_job(body) else None
    if not isinstance(job, Job):
        return body, []
    lines = []
    if job.transport is Transport.SSH:
        annotations = {**(body["metadata"].get("annotations") or {}), f"{PREFIX}transport": str(Transport.EXEC)}
        body = {**body, "metadata": {**body["metadata"], "annotations": annotations}}
        lines.append(f"job {job.name} runs by exec here: one machine, without an sshd in each pod (transport: ssh)")
    home = _home(body["spec"]) if job.dialect is Dialect.T9K else ""
    mpirun = f"{home.rstrip('/')}/bin/mpirun"
    if home and job.launch_command[:1] == (mpirun,):
        body = {**body, "spec": _without_home(body["spec"])}
        lines.append(f"job {job.name} runs its pods' own mpirun here, as they have no images: none is at {mpirun}")
    return body, lines


def _home(spec: Object) -> str:
    """Return where a T9k job's image has Open MPI, by either generation's field; "" if it does not say."""
    return str(spec.get("mpiHome") or (spec.get("mpiConfig") or {}).get("home") or "")


def _without_home(spec: Object) -> Object:
    spec = {key: value for key, value in spec.items() if key != "mpiHome"}
    if spec.get("mpiConfig"):
        spec["mpiConfig"] = {key: value for key, value in spec["mpiConfig"].items() if key != "home"}
    return spec


def _read(name: str) -> Iterator[Object]:
    title = "stdin" if name == "-" else name
    try:
        with open(0 if name == "-" else name, encoding="utf-8", closefd=name != "-") as file:
            bodies = plain(yaml.safe_load_all(file))
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError([f"{title}: can't be read: {error}"]) from None
    except yaml.YAMLError as error:
        raise DocumentError([f"{title}: is no YAML: {' '.join(str(error).split())}"]) from None
    except RecursionError:
        raise DocumentError([f"{title}: is nested too deeply"]) from None
    except (TypeError, ValueError) as error:
        raise DocumentError([f"{title}: is YAML that JSON can't say: {error}"]) from None
    for body in bodies:
        if not isinstance(body, dict) or not isinstance(body.get("metadata") or {}, dict):
            raise DocumentError([f"{title}: a manifest is a mapping with apiVersion, kind and metadata, itself one"])
        yield body
