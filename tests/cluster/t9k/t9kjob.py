"""T9k's MPIJobs as its users write them. Pure, except for reading its document's examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cluster.images import image
from tests.cluster.manifests import Object, WrittenJob, object_of

VERSION = "batch.tensorstack.dev/v1beta1"
_DOCUMENTS = Path(__file__).parent / "documents"
_EXAMPLE = "openmpi4-ssh"
# All workers share one machine's few cores: ranks are bound to none of them, and let each other run while they wait.
_ONE_MACHINE = ["--allow-run-as-root", "-bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]


class T9kJob(WrittenJob):
    """A job."""

    def __init__(self, *program: str, workers: int = 2, example: str = _EXAMPLE) -> None:
        """Take one of our example images; a rank for each worker runs the program, `pi` if none is given."""
        container = {"name": "mpi-worker", "image": image(example)}
        self.body = {
            "apiVersion": VERSION,
            "kind": "MPIJob",
            "metadata": {"name": "pi"},
            "spec": {
                "worker": {
                    "replicas": workers,
                    "extraMPIArgs": ["-N", "1", *_ONE_MACHINE],
                    "cmd": [*program] or ["pi"],
                    "template": {"spec": {"terminationGracePeriodSeconds": 5, "containers": [container]}},
                },
            },
        }

    @classmethod
    def of_document(cls, file: str) -> T9kJob:
        """An example of T9k's with an image of ours."""
        job = cls.__new__(cls)
        job.body = object_of(_DOCUMENTS / file)
        job.main["image"] = image(_EXAMPLE)
        return job

    @property
    def worker(self) -> Object:
        """The workers' part of it, which both generations have."""
        roles = [self.spec["worker"]] if "worker" in self.spec else self.spec["replicaSpecs"]
        return next(one for one in roles if one.get("type", "worker") == "worker")

    @property
    def pod(self) -> Object:
        """The worker pods' spec, as far as the user writes it."""
        return self.worker["template"]["spec"]  # type: ignore[no-any-return]

    @property
    def main(self) -> Object:
        return self.pod["containers"][0]  # type: ignore[no-any-return]

    @property
    def replicas(self) -> int:
        return int(self.worker["replicas"])

    def with_example(self, *names: str) -> T9kJob:
        """Have what these examples of T9k's document show."""
        parts = object_of(_DOCUMENTS / "fragments.yaml")
        for name in names:
            self.body = _merged(self.body, parts[name])
        return self


def _merged(base: Any, over: Any) -> Any:
    """One laid over the other; containers by their place, other lists one after the other."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{key: _merged(base[key], over[key]) if key in base else over[key] for key in over}}
    if isinstance(base, list) and isinstance(over, list):
        is_containers = bool(base) and isinstance(base[0], dict) and "image" in base[0]
        return [_merged(base[0], over[0]), *base[1:]] if is_containers else [*base, *over]
    return over
