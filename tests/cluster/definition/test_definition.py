"""Our definition takes kubeflow's jobs as they are, keeps what each means, and refuses what can't change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from kubernetes.client.exceptions import ApiException

from agents.job.model import Job
from agents.job.read import read
from tests.cluster.definition.defined import kubeflows, ours
from tests.cluster.operators.programs import MPI_OPERATOR, MPI_OPERATOR_V2, TRAINING_OPERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.definition.defined import Definition, Jobs, Object

CLUSTER = Path(__file__).parents[1]
EXAMPLES = [*sorted(CLUSTER.glob("operators/kubeflow/*.yaml")), *sorted(CLUSTER.glob("operator/kubeflow/*.yaml"))]
STARTED = {"status": {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Created", "status": "True"}]}}


def minimal(version: str, **spec: Any) -> Object:
    """A job with one worker."""
    template = {"spec": {"containers": [{"name": "mpi", "image": "example/mpi"}]}}
    roles = {"Launcher": {"template": template}, "Worker": {"replicas": 1, "template": template}}
    metadata = {"name": "pi"}
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": metadata,
        "spec": {"mpiReplicaSpecs": roles, **spec},
    }


def understood(resource: Object) -> Job:
    found = read(resource)
    assert isinstance(found, Job), found
    return found


def schemas(part: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    """All fields of a schema by path, without what is in pod templates."""
    entries = dict(part.get("properties") or {})
    if "properties" in (part.get("additionalProperties") or {}):  # a map by role
        entries |= dict.fromkeys(("Launcher", "Worker"), part["additionalProperties"])
    if isinstance(part.get("items"), dict):
        entries["[]"] = part["items"]
    for name, value in entries.items():
        here = f"{path}.{name}"
        yield here, value
        if name != "template":
            yield from schemas(value, here)


@pytest.mark.parametrize("program", [MPI_OPERATOR, MPI_OPERATOR_V2, TRAINING_OPERATOR], ids=lambda one: one.version)
def test_all_fields_of_kubeflows_are_there(program: Any) -> None:
    mine = {one["name"]: dict(schemas(one["schema"]["openAPIV3Schema"])) for one in ours()["spec"]["versions"]}
    for version in kubeflows(program)["spec"]["versions"]:
        if version["name"] not in mine:
            continue  # v1alpha2
        for path, schema in schemas(version["schema"]["openAPIV3Schema"]):
            if ".labelSelector." in path:
                continue  # kept as it is
            assert path in mine[version["name"]], path
            assert mine[version["name"]][path].get("type") == schema.get("type"), path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parts[-3]}/{path.stem}")
def test_kubeflows_examples_apply_unchanged(definition: Definition, jobs: Jobs, path: Path) -> None:
    definition.be(ours())
    example = yaml.safe_load(path.read_text())
    made = jobs.create(example)
    version = example["apiVersion"].rpartition("/")[2]
    for through in ("v1", "v2beta1"):
        job = understood(jobs.get(made["metadata"]["name"], through))
        assert job.dialect == version
        worker = example["spec"]["mpiReplicaSpecs"]["Worker"]
        assert job.worker.replicas == worker["replicas"]
        containers = [one | {"command": one.get("command")} for one in worker["template"]["spec"]["containers"]]
        assert [
            one | {"command": one.get("command")} for one in job.worker.template["spec"]["containers"]
        ] == containers


class TestJobsFromBefore:
    """Jobs that were stored under kubeflow's definitions, when ours has taken their place."""

    @pytest.fixture(
        params=[(TRAINING_OPERATOR, "v1"), (MPI_OPERATOR, "v1"), (MPI_OPERATOR_V2, "v2beta1")],
        ids=["training-operator", "mpi-operator-v1", "mpi-operator-v2beta1"],
    )
    def version(self, request: pytest.FixtureRequest, definition: Definition, jobs: Jobs) -> str:
        """A job's version, made and then taken over."""
        program, version = request.param
        definition.be(kubeflows(program, version))
        job = minimal(version, slotsPerWorker=2)
        job["spec"]["runPolicy"] = {"cleanPodPolicy": "All", "backoffLimit": 2}
        jobs.create(job)
        before = understood(jobs.get("pi", version))
        assert before.dialect == version
        definition.put(ours())
        jobs.until_ours("pi")
        after = understood(jobs.get("pi", version))
        assert after == before
        return str(version)

    def test_each_version_shows_the_dialect_that_they_have(self, version: str, jobs: Jobs) -> None:
        for through in ("v1", "v2beta1"):
            [listed] = jobs.list(through)
            for one in (jobs.get("pi", through), listed):
                assert one["spec"]["dialect"] == version
                assert understood(one | {"apiVersion": "kubeflow.org/v1"}).dialect == version

    def test_a_patch_through_the_other_version_harms_nothing(self, version: str, jobs: Jobs) -> None:
        """As Kueue does when it lets a job start."""
        before = understood(jobs.get("pi", version))
        other = "v1" if version == "v2beta1" else "v2beta1"
        jobs.patch("pi", other, {"spec": {"runPolicy": {"suspend": True}}})
        jobs.patch("pi", other, {"spec": {"runPolicy": {"suspend": False}}})
        after = jobs.get("pi", version)
        assert after["metadata"]["generation"] > before.generation
        after["metadata"]["generation"] = before.generation
        assert understood(after) == before

    def test_a_status_through_the_other_version_harms_nothing(self, version: str, jobs: Jobs) -> None:
        """As a client with kubeflow's types writes it, which knows of no dialect."""
        other = "v1" if version == "v2beta1" else "v2beta1"
        before = understood(jobs.get("pi", version))
        written = jobs.get("pi", other) | STARTED
        del written["spec"]["dialect"]
        jobs.replace(written, part="status")
        after = jobs.get("pi", version)
        assert understood(after) == before
        assert after["status"] == STARTED["status"]

    def test_an_update_that_drops_the_dialect(self, version: str, jobs: Jobs) -> None:
        """Through its own version it does no harm; through the other it is refused, and says why."""
        other = "v1" if version == "v2beta1" else "v2beta1"
        for through in (version, other):
            written = jobs.get("pi", through)
            del written["spec"]["dialect"]
            if through == version:
                jobs.replace(written)
                continue
            with pytest.raises(ApiException) as refused:
                jobs.replace(written)
            assert refused.value.status == 422
            assert "spec.dialect" in str(refused.value.body)
            assert "the meaning of the version that it was made with" in str(refused.value.body)
        assert understood(jobs.get("pi", version)).dialect == version


@pytest.mark.parametrize(("program", "version"), [(TRAINING_OPERATOR, "v1"), (MPI_OPERATOR_V2, "v2beta1")])
def test_kubeflows_own_definition_will_do(definition: Definition, jobs: Jobs, program: Any, version: str) -> None:
    definition.be(kubeflows(program))
    job = minimal(version)
    job["metadata"]["annotations"] = {"mpi-agents/transport": "exec", "mpi-agents/rbac": "none"}
    jobs.create(job)
    found = understood(jobs.get("pi", version))
    assert (found.dialect, found.transport, found.rbac) == (version, "exec", "none")


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
class TestOurs:
    """The definition by itself."""

    @pytest.fixture(autouse=True)
    def _defined(self, definition: Definition, jobs: Jobs, version: str) -> None:
        definition.be(ours())
        jobs.create(minimal(version))

    def refusal(self, jobs: Jobs, version: str, change: Object) -> str:
        with pytest.raises(ApiException) as refused:
            jobs.patch("pi", version, {"spec": change})
        assert refused.value.status == 422
        return str(refused.value.body)

    def test_transport_changes_until_the_job_has_started(self, version: str, jobs: Jobs) -> None:
        first, second = ("exec", "ssh") if version == "v1" else ("ssh", "exec")  # the first is the dialect's default
        jobs.patch("pi", version, {"spec": {"transport": second}})
        jobs.patch("pi", version, {"spec": {"transport": None}})
        jobs.patch("pi", version, STARTED, part="status")
        assert "spec.transport: Invalid value" in self.refusal(jobs, version, {"transport": second})
        jobs.patch("pi", version, {"spec": {"transport": first}})
        jobs.patch("pi", version, {"status": {"startTime": None}}, part="status")  # suspended: it has no pods
        jobs.patch("pi", version, {"spec": {"transport": second}})

    def test_what_never_changes(self, version: str, jobs: Jobs) -> None:
        other = "v1" if version == "v2beta1" else "v2beta1"
        assert "spec.dialect" in self.refusal(jobs, version, {"dialect": other})
        managed = {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}
        assert "runPolicy.managedBy can't change" in self.refusal(jobs, version, managed)

    def test_faults_that_the_operator_tells_of(self, version: str, jobs: Jobs) -> None:
        """As under kubeflow's: the job is there, and its status says what is wrong."""
        worker = {"restartPolicy": "No", "template": {"spec": {"containers": [], "x": {"y": None}}}}
        roles = {"Launcher": {"replicas": 2}, "Worker": worker}
        jobs.patch("pi", version, {"spec": {"slotsPerWorker": 0, "mpiReplicaSpecs": roles}})
        jobs.patch("pi", version, STARTED, part="status")
        found = read(jobs.get("pi", version))
        assert isinstance(found, tuple)
        assert {problem.path for problem in found} == {
            "spec.slotsPerWorker",
            "spec.mpiReplicaSpecs[Launcher].replicas",
            "spec.mpiReplicaSpecs[Worker].restartPolicy",
            "spec.mpiReplicaSpecs[Worker].template.spec.containers",
        }

    def test_scale(self, version: str, jobs: Jobs) -> None:
        assert "Worker.replicas" in self.refusal(jobs, version, {"mpiReplicaSpecs": {"Worker": {"replicas": -1}}})
        jobs.patch("pi", version, {"spec": {"replicas": 3}}, part="scale")
        assert understood(jobs.get("pi", version)).worker.replicas == 3
