"""kubeflow's training-operator, as it has the v1 MPIJob."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import stat
from pathlib import Path

from tests.cluster.kube import LABELS
from tests.cluster.local.places import SetupError
from tests.cluster.operators.operator import Operator, answers
from tests.cluster.operators.programs import TRAINING_OPERATOR
from tests.ports import free_port

_MARK = "made-by-mpi-agents-tests"


class TrainingOperator(Operator):
    """kubeflow's training-operator, the last one with the v1 MPIJob."""

    program = TRAINING_OPERATOR
    example = "tensorflow-mnist"
    _secret = "training-operator-webhook-cert"
    _webhooks = "validator.training-operator.kubeflow.org"
    _certificates = Path("/tmp/k8s-webhook-server/serving-certs")  # fixed in it, its flags have none for that

    def _arguments(self) -> list[str]:
        return [
            "--enable-scheme=mpijob",
            f"--health-probe-bind-address={self.health}",
            "--metrics-bind-address=0",
            f"--webhook-server-port={free_port()}",
            f"--webhook-secret-name={self._secret}",
        ]

    def _image_arguments(self, delivery_image: str) -> list[str]:
        return [f"--mpi-kubectl-delivery-image={delivery_image}"]

    def install(self) -> None:
        """As for all, and what its certificates are written to; it has no webhook for an MPIJob."""
        super().install()
        self._remove_certificates()
        self._certificates.parent.mkdir(mode=0o700)
        (self._certificates.parent / _MARK).touch()
        self._certificates.mkdir()
        metadata = {"name": self._secret, "namespace": self.namespace, "labels": LABELS}
        self.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        webhooks = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        self.create({**webhooks, "metadata": {"name": self._webhooks, "labels": LABELS}})

    def stop(self) -> None:
        """As for all."""
        super().stop()
        self.remove("ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1", self._webhooks)
        self.remove("Secret", "v1", self._secret, self.namespace)
        self._remove_certificates()

    def _remove_certificates(self) -> None:
        """Remove the folder of an earlier run. Raises SetupError where others own it or may write it."""
        folder = self._certificates.parent
        with contextlib.suppress(FileNotFoundError):
            found = folder.lstat()
            ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
            if not ours or not (folder / _MARK).exists():
                raise SetupError(
                    f"{folder}, where {self.program.command} has its key, is not of these tests: remove it"
                )
            shutil.rmtree(folder)

    def _is_ready(self) -> bool:
        # In a cluster the kubelet puts the Secret where the operator reads it.
        secret = self.api.call("get", self.path("Secret", "v1", self._secret, self.namespace))
        for name, value in (secret.get("data") or {}).items():
            if not (self._certificates / name).exists():
                (self._certificates / name).write_bytes(base64.b64decode(value))
        return answers(self.health, "/readyz")
