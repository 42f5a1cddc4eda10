"""Doctor's script with real launchers, and with a real sshd."""

from __future__ import annotations

import getpass
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from launching import MPI
from ssh_server import SshServer, needs_sshd, new_key

from agents.client.doctor import script
from agents.client.doctor.probe import Mpi, Probe
from agents.job.model import LAUNCHER, WORKER, Implementation, Job
from agents.job.read import read
from agents.playground import wheels
from agents.playground.launchers import LAUNCHERS
from tests.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path


def job_of(keys: Path) -> Job:
    template = {"spec": {"containers": [{"name": "mpi", "image": "a"}]}}
    roles = {"Launcher": {"template": template}, "Worker": {"replicas": 1, "template": template}}
    body = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "pi", "namespace": "a", "uid": "1"},
        "spec": {"mpiReplicaSpecs": roles, "sshAuthMountPath": str(keys)},
    }
    found = read(body)
    assert isinstance(found, Job)
    return found


@pytest.mark.parametrize("name", MPI)
def test_each_mpi_is_known(tmp_path: Path, name: str) -> None:
    launcher = LAUNCHERS[name]
    environ = {**launcher.environment(wheels.installed(launcher, print), os.defpath), "HOME": str(tmp_path)}
    command = script.argv(job_of(tmp_path), WORKER, "pi-launcher")
    done = subprocess.run(command, env=environ, capture_output=True, timeout=60, check=True)
    found = Probe("pi-worker-0", WORKER, script.parse(done.stdout))
    assert found.mpi == Mpi(Implementation(launcher.implementation), launcher.version)
    assert any(found.one(f"path.{daemon}") for daemon in found.mpi.daemons)


@needs_sshd
def test_the_launcher_logs_in(tmp_path: Path) -> None:
    new_key(tmp_path / "id_rsa")
    authorized = tmp_path / "authorized_keys"
    authorized.write_text((tmp_path / "id_rsa.pub").read_text())
    (tmp_path / "hostfile").write_text("# workers\nlocalhost slots=2\n")
    options = [f"AuthorizedKeysFile={authorized}", "StrictModes=no", "UsePAM=no", "PermitRootLogin=yes"]
    with SshServer(tmp_path, free_port(), *(word for one in options for word in ("-o", one))) as server:
        known = "-o ConnectTimeout=60 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        whole = f"-F /dev/null -i {tmp_path}/id_rsa -l {getpass.getuser()} -p {server.port} {known}"
        (tmp_path / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh {whole} "$@"\n')
        (tmp_path / "ssh").chmod(0o755)

        def found() -> tuple[str, str]:
            environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
            environ["OMPI_MCA_orte_default_hostfile"] = str(tmp_path / "hostfile")
            command = script.argv(job_of(tmp_path), LAUNCHER, "pi-launcher")
            done = subprocess.run(command, env=environ, capture_output=True, timeout=60, check=True)
            values = script.parse(done.stdout)
            assert values["mode"][2].startswith("-rw------- ")
            return values["dns.localhost"][0], values["login.localhost"][0]

        assert found() == ("0", "0")
        authorized.write_text("")
        resolved, refused = found()
        assert resolved == "0"
        assert refused.startswith("255 ")
        assert "Permission denied (publickey" in refused
