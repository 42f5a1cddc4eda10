"""A gang scheduler: that of scheduler-plugins, as a process beside the cluster."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.local.daemons import Daemon
from tests.cluster.operators.programs import SCHEDULER_PLUGINS

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "gang-scheduler"  # what pods have as schedulerName
GROUP = "scheduling.x-k8s.io/v1alpha1"


@contextlib.contextmanager
def scheduler(kubeconfig: str) -> Iterator[None]:
    """scheduler-plugins' scheduler with coscheduling, for the pods that name it."""
    profile = {
        "schedulerName": NAME,
        "plugins": {
            "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
            "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
        },
    }
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": kubeconfig},
        "profiles": [profile],
    }
    with tempfile.TemporaryDirectory(prefix="mpi-agents-gang-") as made:
        folder = Path(made)
        file = folder / "configuration.json"
        file.write_text(json.dumps(configuration))
        words = (SCHEDULER_PLUGINS.binary, f"--config={file}", "--secure-port=0", "-v=2")
        daemon = Daemon(NAME, words, folder, folder)
        daemon.start()
        try:
            yield
        finally:
            print(daemon.log.read_text(errors="replace")[-3000:])
            daemon.stop()
