"""Doctor's script in real shells, and what its findings mean."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from mpijobs import read_job
from test_doctor_checks import levels, resource

from agents.client.doctor import Check, Level, probe, script
from agents.client.doctor.probe import Mpi, Probe
from agents.client.doctor.ssh import ssh_checks
from agents.client.errors import ClientError, ForbiddenError, RefusedError, WaitTimeoutError
from agents.job.model import LAUNCHER, WORKER, Implementation, Job

if TYPE_CHECKING:
    from pathlib import Path

SHELLS = [path for path in map(shutil.which, ("dash", "bash")) if path]
OPEN_MPI_4, OPEN_MPI_5 = "mpirun (Open MPI) 4.1.8", "mpirun (Open MPI) 5.0.11"
INTEL = "Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 20260101 (id: 1)"
AGENT, HOSTFILE = "/etc/mpi/kubexec.sh", "/etc/mpi/hostfile"


def job_of(version: str = "v1", requests: Mapping[str, str] | None = None, **spec: Any) -> Job:
    body = resource(version, **spec)
    for role in body["spec"]["mpiReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["resources"] = {"limits": requests or {}}
    return read_job(body)


def ran(shell: str, folder: Path, role: str, version: str = "v2beta1", **programs: str) -> Mapping[str, Sequence[str]]:
    """Run the script where only these programs are, beside the usual ones; HOME is a folder with keys."""
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    job = job_of(version, sshAuthMountPath=str(folder), ssh={"sshdPath": str(folder / "sshd")})
    command = [shell, *script.argv(job, role, "localhost")[1:]]
    environ = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "HYDRA_IFACE": "eth0"}
    done = subprocess.run(command, env=environ, capture_output=True, timeout=60, check=True)
    assert done.stderr == b""
    return script.parse(done.stdout)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_in_a_worker(shell: str, tmp_path: Path) -> None:
    (tmp_path / "authorized_keys").write_text("")
    (tmp_path / ".sshd_config").write_text("Port 2299\nStrictModes no\n")
    tmp_path.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = ran(shell, tmp_path, WORKER, mpirun=f"echo; echo '{OPEN_MPI_5}'; exit 1", prted="", sshd="")
        assert f"{server.getsockname()[1]:04X}" in found["listen"]
    assert found["path.prted"] == [str(tmp_path / "prted")]
    assert "path.orted" not in found
    assert found["version"] == [OPEN_MPI_5]
    assert found["env.HYDRA_IFACE"] == ["eth0"]
    assert found["memlock"]
    assert found["shm"]
    assert found["dns.localhost"] == ["0"]
    assert found["sshd"] == [str(tmp_path / "sshd")]
    assert found["mode"][0].split()[::2] == ["drwxr-xr-x", str(tmp_path)]
    assert len(found["mode"]) == 3  # no id_rsa
    assert (found["port"], found["strict"]) == (["2299"], ["no"])
    assert found[script.END] == ["1"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_in_a_launcher(shell: str, tmp_path: Path) -> None:
    programs = {"mpiexec": "echo HYDRA build details:; echo '    Version:   5.0.2'", "hydra_pmi_proxy": ""}
    found = ran(shell, tmp_path, LAUNCHER, "v1", **programs)
    assert Probe("pi-launcher", LAUNCHER, found).mpi == Mpi(Implementation.MPICH, "5.0.2")
    assert "mode" not in found  # it is not by ssh
    assert found[script.END] == ["1"]


def test_output_of_a_pod_is_not_trusted() -> None:
    assert script.parse(b"a=1\nno pair\nb=x\x1b[2Jy\n=\nc=\na=2\n\xff=z") == {
        "a": ["1", "2"],
        "b": ["x?[2Jy"],
        "\ufffd": ["z"],
    }
    assert len(script.parse(b"a=" + b"x" * 100_000)["a"][0]) <= 256


def one(pod: str = "pi-launcher", version: str = OPEN_MPI_4, **values: str) -> Probe:
    """A pod's findings; a double underscore stands for the dot in a name."""
    found = {name.replace("__", "."): [value] for name, value in values.items()}
    return Probe(pod, LAUNCHER if "launcher" in pod else WORKER, {"version": [version], **found}, 0.1)


def worker(**values: str) -> Probe:
    return one("pi-worker-0", **values)


FOUR = {"env__OMPI_MCA_plm_rsh_agent": AGENT, "env__OMPI_MCA_orte_default_hostfile": HOSTFILE}
FIVE = {"env__PRTE_MCA_plm_ssh_agent": AGENT, "env__PRTE_MCA_prte_default_hostfile": HOSTFILE}
WELL = {"version": "ok", "agent": "ok", "hostfile": "ok", "daemon": "ok"}


@pytest.mark.parametrize(
    ("launcher", "other", "expected"),
    [
        (one(**FOUR), worker(path__orted="/o"), WELL),
        (one(version=OPEN_MPI_5, **FIVE), worker(version=OPEN_MPI_5, path__prted="/p"), WELL),
        # what training-operator sets, which Open MPI 5 does not read:
        (
            one(version=OPEN_MPI_5, **FOUR),
            worker(version=OPEN_MPI_5, path__prted="/p"),
            {**WELL, "agent": "fail", "hostfile": "warn"},
        ),
        (one(**FOUR), worker(), {**WELL, "daemon": "fail"}),
        (one(**FOUR), worker(version=OPEN_MPI_5, path__orted="/o"), {**WELL, "version": "fail"}),
        (one(**FOUR), worker(version="", path__orted="/o"), {**WELL, "mpirun": "warn"}),
        (one(version="sh: not found"), worker(version=""), {"mpirun": "warn"}),
        (
            one(version=INTEL, env__I_MPI_HYDRA_BOOTSTRAP_EXEC=AGENT, env__I_MPI_HYDRA_HOST_FILE=HOSTFILE),
            worker(version=INTEL, path__hydra_pmi_proxy="/h"),
            WELL,
        ),
    ],
)
def test_mpi(launcher: Probe, other: Probe, expected: dict[str, str]) -> None:
    found = [*probe.mpi_checks(job_of(), [launcher, other])]
    assert levels(found) == expected
    assert_remedies(found)


@pytest.mark.parametrize(
    ("version", "known"),
    [
        (OPEN_MPI_4, "Open MPI 4.1.8"),
        ("mpiexec (OpenRTE) 4.1.8", "Open MPI 4.1.8"),
        (OPEN_MPI_5, "Open MPI 5.0.11"),
        (INTEL, "Intel 2021.18"),
        ("Version: 5.0.2", "MPICH 5.0.2"),
        ("sh: mpirun: not found", "None"),
    ],
)
def test_versions(version: str, known: str) -> None:
    assert str(one(version=version).mpi) == known


def test_workers_without_a_launcher() -> None:
    assert levels([*probe.mpi_checks(job_of(), [worker()])]) == {"version": "ok", "daemon": "fail"}


def test_another_implementation_than_the_jobs() -> None:
    found = levels([*probe.mpi_checks(job_of("v2beta1"), [one(version=INTEL)])])
    assert found == {"version": "ok", "mpiImplementation": "fail", "hostfile": "warn", "daemon": "skip"}


@pytest.mark.parametrize(
    ("error", "latency_s", "expected"),
    [
        (None, 0.1, {"exec": "ok", "shell": "ok"}),
        (None, 3.0, {"exec": "warn", "shell": "ok"}),
        (ForbiddenError("x"), 0.0, {"exec": "skip"}),
        (RefusedError('exec: "/bin/sh": stat /bin/sh: no such file or directory'), 0.0, {"shell": "fail"}),
        (
            RefusedError('OCI runtime exec failed: unable to start: exec: "/bin/sh": permission denied'),
            0.0,
            {"shell": "fail"},
        ),
        (RefusedError('container "mpi" not found'), 0.0, {"exec": "fail"}),
        (WaitTimeoutError("pi-worker-0: no end of /bin/sh within 30 s"), 0.0, {"exec": "fail"}),
    ],
)
def test_exec(error: ClientError | None, latency_s: float, expected: dict[str, str]) -> None:
    found = [*probe.exec_checks([Probe("pi-worker-0", WORKER, {}, latency_s, error)])]
    assert levels(found) == expected
    assert_remedies(found)


@pytest.mark.parametrize(
    ("values", "requests", "expected"),
    [
        ({"shm": "1048576 /dev/shm", "memlock": "unlimited"}, {"rdma/hca": "1"}, {"shm": "ok", "memlock": "ok"}),
        ({"shm": "65536 /dev/shm", "memlock": "64"}, {}, {"shm": "warn", "memlock": "ok"}),
        ({"memlock": "64"}, {"rdma/hca": "1"}, {"memlock": "warn"}),
    ],
)
def test_limits(values: dict[str, str], requests: dict[str, str], expected: dict[str, str]) -> None:
    found = [*probe.limit_checks(job_of(requests=requests), [one(**values)])]
    assert levels(found) == expected
    assert_remedies(found)


@pytest.mark.parametrize(
    ("version", "launcher", "other", "expected"),
    [
        ("v2beta1", {"dns__w": "0", "dns__l": "0"}, {"dns__l": "0"}, ["ok", "ok", "ok"]),
        ("v2beta1", {"dns__w": "2", "dns__l": "0"}, {"dns__l": "2"}, ["ok", "fail", "ok"]),
        ("v1", {"dns__w": "2", "dns__l": "0"}, {"dns__l": "2"}, ["ok", "ok", "ok"]),
        ("v1", {"version": INTEL, "dns__w": "2", "dns__l": "0"}, {"dns__l": "2"}, ["ok", "ok", "fail"]),
        ("v1", {"version": INTEL, "dns__l": "2", "env__I_MPI_HYDRA_IFACE": "eth0"}, {"dns__l": "2"}, ["ok", "ok"]),
        ("v2beta1", {"dns__w": "99", "dns__l": "99"}, {"dns__l": "99"}, ["skip", "skip", "skip"]),
    ],
)
def test_dns(version: str, launcher: dict[str, str], other: dict[str, str], expected: list[str]) -> None:
    found = [*probe.dns_checks(job_of(version), [one(**launcher), worker(**other)], "l")]
    assert [str(each.level) for each in found] == expected
    assert_remedies(found)


KEYS = "/root/.ssh"
LAUNCHER_WELL = {
    "path.ssh": ["/usr/bin/ssh"],
    "uid": ["0"],
    "mode": ["drwx------ 0 /root", f"-rw------- 0 {KEYS}/id_rsa"],
    "login.pi-worker-0": ["0"],
}
WORKER_WELL = {"sshd": ["/usr/sbin/sshd"], "port": ["2222"], "listen": ["08AE"], "mode": ["drwxr-xr-x 0 /root"]}


@pytest.mark.parametrize(
    ("launcher", "other", "failed", "text"),
    [
        ({}, {}, set(), ""),
        ({"path.ssh": []}, {}, {"client"}, "no ssh on PATH"),
        ({"mode": []}, {}, {"keys"}, f"no {KEYS}/id_rsa"),
        ({"mode": [f"-rw-r--r-- 0 {KEYS}/id_rsa"]}, {}, {"keys"}, "has mode -rw-r--r--"),
        ({"mode": [f"-rw-r--r-- 0 {KEYS}/id_rsa"], "uid": ["1000"]}, {}, set(), ""),
        (
            {"login.pi-worker-0": ["255 Permission denied (publickey)."]},
            {},
            {"login"},
            "pi-worker-0: Permission denied (publickey).",
        ),
        ({}, {"sshd": []}, {"sshd"}, "no /usr/sbin/sshd"),
        ({}, {"listen": ["1F90"]}, {"port"}, "nothing listens on port 2222"),
        ({}, {"listen": ["0016"]}, set(), ""),
        ({}, {"port": ["x"], "listen": ["0016", "zz"]}, set(), ""),
        ({}, {"mode": ["drwxrwxr-x 0 /root"]}, {"modes"}, "/root (drwxrwxr-x"),
        ({}, {"mode": ["drwxrwxr-x 0 /root"], "strict": ["no"]}, set(), ""),
        ({}, {"mode": ["nonsense"]}, set(), ""),
    ],
)
def test_ssh(launcher: Any, other: Any, failed: set[str], text: str) -> None:
    probes = [
        Probe("pi-launcher", LAUNCHER, {**LAUNCHER_WELL, **launcher}),
        Probe("pi-worker-0", WORKER, {**WORKER_WELL, **other}),
    ]
    found = [*ssh_checks(job_of("v2beta1"), probes)]
    assert {each.name for each in found if each.level is Level.FAIL} == failed
    assert text in " ".join(each.what for each in found)
    assert_remedies(found)
    assert {each.name for each in found} == {"sshd", "port", "modes", "client", "keys", "login"}


def assert_remedies(found: Iterable[Check]) -> None:
    assert all(bool(each.remedy) == (each.level in {Level.FAIL, Level.WARN}) for each in found)
