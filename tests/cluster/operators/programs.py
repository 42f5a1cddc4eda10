"""Programs that tests run beside ours: built from Go modules, once, and kept outside the checkout."""

from __future__ import annotations

import fcntl
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.cluster.local.build import GO_ENVIRONMENT, GO_OPTIONS, downloaded, run
from tests.cluster.local.places import Places

if TYPE_CHECKING:
    from collections.abc import Callable

Object = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """A command of a Go module, and the files there that define its kinds, if it has any: a path, or a pattern."""

    module: str
    version: str
    command: str
    definition: str = ""
    needs: tuple[str, ...] = ()  # newer modules than its own go.mod names, where today's Go does not build those

    @property
    def folder(self) -> Path:
        """Where it is kept: its binary, by the command's own name."""
        name = re.sub(r"/v\d+$", "", self.module).rpartition("/")[2]
        return Places.of().cache / "operators" / f"{name}-{self.version}"

    @property
    def binary(self) -> Path:
        """What is run."""
        return self.folder / self.command

    def kinds(self) -> list[Object]:
        """The definitions of its kinds, which its module has. Raises SetupError."""
        files = sorted(self._source.glob(self.definition))
        return [one for file in files for one in yaml.safe_load_all(file.read_text()) if one]

    @property
    def can_be_had(self) -> bool:
        """Whether it was built, or there is Go to build it."""
        return self.binary.exists() or shutil.which("go") is not None

    def build(self, say: Callable[[str], None]) -> None:
        """Build it, unless that was done before. Raises SetupError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:  # of the processes that run tests side by side
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self.binary.exists():
                self._build(say)

    def _build(self, say: Callable[[str], None]) -> None:
        say(f"building {self.module} {self.version}: some minutes, once")
        source = self.folder / "source"
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(self._source, source)
        run(Places.of(), "chmod", "-R", "u+w", str(source), say=say)
        # In its own module, so that its own replace lines hold.
        environment = {**GO_ENVIRONMENT, "GOFLAGS": "-mod=mod"}
        if self.needs:
            run(Places.of(), "go", "get", *self.needs, cwd=source, env=environment, say=say)
        out = self.folder / "building"
        build = ("go", "build", *GO_OPTIONS, "-o", str(out), f"./cmd/{self.command}")
        run(Places.of(), *build, cwd=source, env=environment, say=say)
        shutil.rmtree(source)
        out.rename(self.binary)

    @property
    def _source(self) -> Path:
        return Path(downloaded(f"{self.module}@v{self.version}")["Dir"])


TRAINING_OPERATOR = Program(
    module="github.com/kubeflow/training-operator",
    version="1.9.3",
    command="training-operator.v1",
    definition="manifests/base/crds/kubeflow.org_mpijobs.yaml",
)
MPI_OPERATOR = Program(
    module="github.com/kubeflow/mpi-operator",
    version="0.3.0",
    command="mpi-operator.v1",
    definition="manifests/base/crd.yaml",
)
HELM = Program(module="helm.sh/helm/v3", version="3.19.0", command="helm")
MPI_OPERATOR_V2 = Program(
    module="github.com/kubeflow/mpi-operator",
    version="0.8.2",
    command="mpi-operator",
    definition="manifests/base/kubeflow.org_mpijobs.yaml",
)
SCHEDULER_PLUGINS = Program(
    module="sigs.k8s.io/scheduler-plugins",
    version="0.33.5",
    command="scheduler",
    definition="manifests/coscheduling/crd.yaml",
)
KUEUE = Program(
    module="sigs.k8s.io/kueue", version="0.19.2", command="kueue", definition="config/components/crd/bases/*.yaml"
)
KWOK = Program(module="sigs.k8s.io/kwok", version="0.7.0", command="kwok")
REGISTRY = Program(module="github.com/distribution/distribution/v3", version="3.0.0", command="registry")
