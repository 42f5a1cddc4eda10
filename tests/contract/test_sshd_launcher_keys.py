"""A launcher whose Secret is broken says so and ends; whole or new keys in it are taken by one that runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delivery_ssh import Launcher, listening
from running import DEADLINE_S
from ssh_pods import helpers
from test_delivery_staying import WORKER, launcher
from worker_running import Mounted

from sshd_bootstrap import paths
from tests.keys import key_pair
from tests.ports import free_port
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["helpers", "launcher"]

BROKEN = {paths.PRIVATE_KEY: "c2VjcmV0", paths.PUBLIC_KEY: "ssh-ed25519 AAAA"}


class Secret(Mounted):
    """The job's Secret, as the kubelet mounts it."""

    def rotate(self) -> str:
        """Put a new pair into it; return the private key."""
        pair = {name: content.decode() for name, content in key_pair().items()}
        self.write(**pair)
        return pair[paths.PRIVATE_KEY]


@pytest.fixture
def secret(launcher: Launcher, helpers: dict[str, str]) -> Secret:
    launcher.environ |= {"MPI_AGENT_TOOLS": str(Path(helpers["shipped"]).parent), "MPI_SSH_FOLLOW": "true"}
    shutil.rmtree(launcher.keys)
    return Secret(launcher.keys)


def start(launcher: Launcher, port: int, *arguments: str) -> None:
    """Delivery beside the launcher's container, and the hook that its start waits for."""
    launcher.start(*arguments, ports=str(port))
    hook = [sys.executable, "-m", "sshd_bootstrap"]
    environ = {**launcher.environ, "MPI_SSH_PORTS": str(port)}
    found = subprocess.run(hook, env=environ, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert (found.returncode, found.stderr) == (0, "")


def run_main(launcher: Launcher) -> tuple[int, str]:
    """The launcher's own container."""
    words = [f"{launcher.volume}/run/sshd-start", "--when-ready", "sh", "-c", "echo began"]
    found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    return found.returncode, found.stdout + found.stderr


def in_force(launcher: Launcher) -> set[str]:
    return {(launcher.volume / name).read_text() for name in ("auth/id_rsa", "run/identity")}


@pytest.fixture
def port() -> Iterator[int]:
    """Where the worker's sshd answers."""
    found = free_port()
    with listening(WORKER, found):
        yield found


@pytest.mark.parametrize("passwd", ["image", "generated"])
def test_a_broken_key_ends_the_launchers_container_with_the_reason(
    passwd: str, launcher: Launcher, secret: Secret, port: int
) -> None:
    launcher.environ["MPI_SSH_PASSWD"] = passwd
    secret.write(**BROKEN)
    start(launcher, port)
    code, said = run_main(launcher)
    assert code == 13
    assert said.startswith("sshd-start: ssh-publickey in the job's ssh Secret ")
    assert "delete the Secret, and the operator creates a new pair" in said
    assert (launcher.volume / "passwd").is_file() is (passwd == "generated"), "what a pod mounts has to be there"
    assert run_main(launcher)[0] == 13, "so does one that is started again"
    key = secret.rotate()
    until(lambda: run_main(launcher) == (0, "began\n"), "a whole key is taken")
    assert in_force(launcher) == {key}
    launcher.process.terminate()
    assert launcher.end() == 0
    assert "c2VjcmV0" not in launcher.told
    assert launcher.log.read_text() == ""


def test_what_keeps_the_container_from_its_start_is_said_by_the_hook(launcher: Launcher, secret: Secret) -> None:
    secret.write(**BROKEN)
    launcher.environ["MPI_AGENT_TOOLS"] = "/no/such"
    hook = [sys.executable, "-m", "sshd_bootstrap"]
    found = subprocess.run(hook, env=launcher.environ, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert found.returncode == 23
    assert "/no/such/sshd-start can't be read" in launcher.log.read_text()


def test_new_keys_reach_a_launcher_that_runs(launcher: Launcher, secret: Secret, port: int) -> None:
    old = secret.rotate()
    start(launcher, port)
    assert run_main(launcher) == (0, "began\n")
    assert in_force(launcher) == {old}
    config = (launcher.volume / "run" / "ssh_config").read_text()
    secret.write(**BROKEN)
    line = launcher.until_told("the keys in the Secret have changed but can't be used; the previous ones stay in use: ")
    assert "c2VjcmV0" not in line
    assert in_force(launcher) == {old}
    key = secret.rotate()
    launcher.until_told("the keys in the Secret have changed: new connections use them")
    assert in_force(launcher) == {key}
    assert (launcher.volume / "run" / "ssh_config").read_text() == config
    public = (launcher.keys / paths.PUBLIC_KEY).read_text().split()[1]
    assert public in (launcher.volume / "run" / "known_hosts").read_text()
    launcher.process.terminate()
    assert launcher.end() == 0
    assert launcher.told.count("can't be used") == 1


def test_a_launcher_whose_workers_keep_their_keys_does_so_too(launcher: Launcher, secret: Secret) -> None:
    del launcher.environ["MPI_SSH_FOLLOW"]
    old, port = secret.rotate(), free_port()
    start(launcher, port, "--timeout", "1s")
    assert run_main(launcher)[0] == 24
    secret.rotate()
    with listening(WORKER, port):
        until(lambda: run_main(launcher) == (0, "began\n"), "it waits again")
    assert in_force(launcher) == {old}
    launcher.process.terminate()
    assert launcher.end() == 0


def test_keys_that_changed_during_the_wait_are_there_before_the_command(
    launcher: Launcher, secret: Secret, port: int
) -> None:
    """The banners answer immediately: what is taken a second later, the first mpirun goes without."""
    secret.rotate()
    hook = [sys.executable, "-m", "sshd_bootstrap"]
    subprocess.run(hook, env={**launcher.environ, "MPI_SSH_PORTS": str(port)}, check=True, timeout=DEADLINE_S)
    key = secret.rotate()
    launcher.start(ports=str(port))
    words = [f"{launcher.volume}/run/sshd-start", "--when-ready", "cat", f"{launcher.volume}/run/identity"]
    found = subprocess.run(words, capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    assert found.stdout == key
    launcher.process.terminate()
    assert launcher.end() == 0


def test_keys_that_change_during_the_wait_are_taken_behind_it(launcher: Launcher, secret: Secret) -> None:
    secret.rotate()
    port = free_port()
    start(launcher, port)
    launcher.until_told(f"pi-worker-0 not listening on port {port} yet")
    key = secret.rotate()
    with listening(WORKER, port):
        launcher.until_told("the keys in the Secret have changed: new connections use them")
    assert in_force(launcher) == {key}
    launcher.process.terminate()
    assert launcher.end() == 0
