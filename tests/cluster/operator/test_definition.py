"""The kind's definition: taken over from kubeflow's operators, kept, and kept out of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from images import catalog
from tests.cluster.images import REPOSITORY
from tests.cluster.kube import DEFINITIONS
from tests.cluster.operator.helm import INSTALL_YAML, HelmError
from tests.cluster.operator.helm import NAMESPACE as INSTALLED
from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.operator.release import NAME, Release
from tests.cluster.operator.submitted import Submitted
from tests.cluster.operators.programs import MPI_OPERATOR_V2, TRAINING_OPERATOR

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Namespace
    from tests.cluster.operators.programs import Program

    Kubectl = Callable[[str], str]


def define(release: Release, program: Program) -> None:
    """Create a definition of kubeflow's, as it is there."""
    (body,) = program.kinds()
    release.api.call("post", DEFINITIONS, body)
    release.mark()
    release.until_defined()


@pytest.mark.parametrize(
    ("program", "version"), [(MPI_OPERATOR_V2, "v2beta1"), (TRAINING_OPERATOR, "v1")], ids=["v2beta1", "v1"]
)
def test_a_definition_of_kubeflows_is_taken_over(
    bare: Release, namespace: Namespace, program: Program, version: str
) -> None:
    """A job from before is run as it was meant."""
    define(bare, program)
    job = MpiJob(version).annotate(transport="exec")
    for field in ("transport", "mpiImplementation"):
        job.spec.pop(field, None)
    before = Submitted(namespace, job).start()
    with pytest.raises(HelmError, match="invalid ownership metadata"):
        bare.install()
    bare.install(None, "--take-ownership")
    assert before.verdict() == "Succeeded", before.output
    after = Submitted(namespace, MpiJob("v1" if version == "v2beta1" else "v2beta1", name="other")).start()
    assert after.verdict() == "Succeeded", after.output


def test_kubeflows_definition_is_kept_where_it_is_wanted(bare: Release, namespace: Namespace) -> None:
    define(bare, MPI_OPERATOR_V2)
    was = bare.definition()
    bare.install({"crds": {"install": False}})
    job = MpiJob("v2beta1").annotate(transport="exec")
    job.spec.pop("transport")
    running = Submitted(namespace, job).start()
    assert running.verdict() == "Succeeded", running.output
    now = bare.definition()
    assert was
    assert now
    assert now["spec"] == was["spec"]


def test_jobs_and_definition_outlive_the_operator(bare: Release, namespace: Namespace) -> None:
    bare.install()
    running = Submitted(namespace, MpiJob("v2beta1")).start()
    assert running.verdict() == "Succeeded", running.output
    bare.uninstall()
    assert running.resource()["metadata"]["uid"] == running.uid
    bare.install()
    assert (bare.definition() or {})["metadata"]["annotations"]["meta.helm.sh/release-name"] == NAME


def test_a_definition_that_is_not_kept_goes(bare: Release) -> None:
    bare.install({"crds": {"keep": False}})
    bare.uninstall()
    bare.until_undefined()


def test_install_yaml_is_all_that_is_needed(bare: Release, namespace: Namespace, kubectl: Kubectl) -> None:
    """It makes its own namespace, and takes it away again with all the rest."""
    prefix = f"{REPOSITORY}/" if REPOSITORY else ""
    file = f"sed 's,mpi-agents:{catalog.version()},{prefix}&,' {INSTALL_YAML}"
    try:
        kubectl(f"{file} | kubectl apply -f -")
        bare.mark()
        kubectl(f"kubectl -n {INSTALLED} rollout status deployment mpi-agents --timeout=90s")
        running = Submitted(namespace, MpiJob("v2beta1")).start()
        assert running.verdict() == "Succeeded", running.output
        kubectl(f"{file} | kubectl apply -f -")  # once more, as for an upgrade
    finally:
        kubectl(f"{file} | kubectl delete --ignore-not-found -f -")
