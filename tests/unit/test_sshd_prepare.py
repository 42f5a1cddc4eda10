"""Writing into the volume: whole files, their modes, what can't be written, and the command that does it."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sshd_bootstrap import cli, paths
from sshd_bootstrap.exits import HELPER_MISSING, MODE_CHANGED, PORT, VOLUME, BootstrapError
from sshd_bootstrap.prepare import check_mode, check_port, prepare, set_ports, volume_error
from sshd_bootstrap.settings import HostKeys, Role, Settings
from tests.keys import write_keys
from tests.privileges import NO_CAPABILITIES, umask
from tests.waiting import DEADLINE_S, until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    for name in ("keys", "volume", "tools"):
        (tmp_path / name).mkdir()
    (tmp_path / "tools" / "sshd-start").write_bytes(b"program")
    write_keys(tmp_path / "keys")
    return tmp_path


def settings(pod: Path, **changes: object) -> Settings:
    return Settings(
        role=Role.WORKER,
        keys=str(pod / "keys"),
        volume=str(pod / "volume"),
        tools=str(pod / "tools"),
        **changes,  # type: ignore[arg-type]
    )


def tree(pod: Path) -> dict[str, int]:
    found = (os.path.join(folder, name) for folder, _, names in os.walk(pod / "volume") for name in names)
    return {os.path.relpath(path, pod / "volume"): stat.S_IMODE(os.stat(path).st_mode) for path in found}


def refusal(asked: Settings) -> tuple[int, str]:
    with pytest.raises(BootstrapError) as failed:
        prepare(asked)
    return failed.value.exit_code, failed.value.message


# ---- what is written ----


def test_all_is_there_with_its_mode_whatever_the_umask(pod: Path) -> None:
    with umask(0o777):
        prepare(settings(pod))
    private = (pod / "keys" / paths.PRIVATE_KEY).read_bytes()
    assert tree(pod)["run/ssh_host_key"] == 0o600
    assert tree(pod)["run/sshd-start"] == 0o755
    assert tree(pod)["run/sshd_config"] == 0o644
    assert (pod / "volume/run/ssh_host_key").read_bytes() == private
    assert (pod / "volume/run/sshd-start").read_bytes() == b"program"
    assert stat.S_IMODE((pod / "volume/run").stat().st_mode) == 0o755
    assert not any(name.endswith(".part") for name in tree(pod))


def test_new_keys_replace_the_old_ones_and_the_rest_stays(pod: Path) -> None:
    prepare(settings(pod))
    before = {name: os.stat(pod / "volume" / name).st_ino for name in tree(pod)}
    write_keys(pod / "keys")
    prepare(settings(pod))
    replaced = {name for name in before if os.stat(pod / "volume" / name).st_ino != before[name]}
    assert replaced == {
        *("auth/id_rsa", "auth/id_rsa.pub", "auth/authorized_keys", "auth/known_hosts"),
        *("run/identity", "run/known_hosts", "run/authorized_keys", "run/ssh_host_key"),
    }


def test_a_launcher_that_waits_inside_has_the_helper(pod: Path) -> None:
    prepare(replace(settings(pod), role=Role.LAUNCHER, waits_inside=True))
    assert tree(pod)["run/sshd-start"] == 0o755
    assert not {"run/ssh_host_key", "run/sshd_config"} & tree(pod).keys()


def test_ports_that_were_found_stay(pod: Path) -> None:
    asked = settings(pod, has_own_config=True)
    prepare(asked)
    set_ports(asked, {"a": 2200})
    prepare(asked)
    for name in ("run/ssh_config", "auth/config"):
        assert "    Port 2200\n" in (pod / "volume" / name).read_text()


def test_hosts_that_ssh_has_met_are_not_forgotten(pod: Path) -> None:
    asked = settings(pod, host_keys=HostKeys.IMAGE)
    prepare(asked)
    known = pod / "volume/run/known_hosts"
    known.write_text("a ssh-ed25519 AAAA\n")
    known.chmod(0o600)
    prepare(asked)
    assert known.read_text() == "a ssh-ed25519 AAAA\n"


def test_two_at_once_write_one_after_the_other(pod: Path) -> None:
    """A sidecar that is started again runs its hook while delivery takes new keys."""
    shutil.copytree(pod / "keys", pod / "others")
    write_keys(pod / "keys")
    several = [settings(pod), replace(settings(pod), keys=str(pod / "others"))] * 50
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(prepare, several))
    keys = {(pod / folder / paths.PRIVATE_KEY).read_bytes() for folder in ("keys", "others")}
    assert (pod / "volume/run/ssh_host_key").read_bytes() in keys


def test_who_writes_last_has_no_older_keys(pod: Path) -> None:
    """Who read the Secret before another took the new one must not write behind it: nobody would look again."""
    volume = os.open(pod / "volume", os.O_RDONLY)
    with ThreadPoolExecutor(1) as pool:
        fcntl.flock(volume, fcntl.LOCK_EX)
        try:
            preparing = pool.submit(prepare, settings(pod))
            until(lambda: is_waited_for(pod / "volume"), "a preparation that waits for its turn")
            write_keys(pod / "keys")
        finally:
            os.close(volume)
        preparing.result()
    assert (pod / "volume/run/ssh_host_key").read_bytes() == (pod / "keys" / paths.PRIVATE_KEY).read_bytes()


def is_waited_for(folder: Path) -> bool:
    """Whether somebody waits for the lock of a folder, as the kernel says."""
    with open("/proc/locks", encoding="ascii") as file:
        return any("-> FLOCK" in line and f":{folder.stat().st_ino} " in line for line in file)


# ---- what can be wrong ----


def test_a_volume_that_is_not_there(pod: Path) -> None:
    (pod / "volume").rmdir()
    assert refusal(settings(pod)) == (
        VOLUME,
        f"{pod}/volume in the volume of the ssh keys can't be written: it is not there; it must be an emptyDir "
        "with room for 1 MiB",
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
def test_a_volume_that_is_full() -> None:
    with pytest.raises(OSError, match="No space left") as failed, open("/dev/full", "wb", buffering=0) as full:
        full.write(b"x")
    error = volume_error(failed.value, "/mpi-ssh/run/identity", 0)
    assert error.exit_code == VOLUME
    assert "can't be written: it is full; it must be an emptyDir with room for 1 MiB" in error.message


def test_a_mode_that_does_not_stay() -> None:
    check_mode("/x", 0o600, 0o100600)
    with pytest.raises(BootstrapError) as failed:
        check_mode("/mpi-ssh/run/identity", 0o600, 0o100660)
    assert failed.value.exit_code == MODE_CHANGED
    assert failed.value.message == (
        "/mpi-ssh/run/identity has mode 0660, though it was given 0600: fsGroup or the volume's file system changes "
        "modes, and ssh refuses such keys; take fsGroup out of the template, or use an emptyDir"
    )


PORTS = [
    ({"uid": 1000, "ports": (22,)}, True),
    ({"uid": 1000, "ports": (1023,)}, True),
    ({"uid": 1000, "ports": (1024,)}, False),
    ({"uid": 0, "ports": (22,)}, False),
    ({"uid": 1000, "ports": (22,), "unprivileged_ports": 0}, False),  # as container runtimes set it
    ({"uid": 1000, "ports": (22,), "has_own_config": True}, False),  # the image may have set a capability
]


@pytest.mark.parametrize(("changes", "is_refused"), PORTS)
def test_a_port_that_the_uid_may_not_take(pod: Path, *, changes: dict[str, object], is_refused: bool) -> None:
    if not is_refused:
        check_port(settings(pod, **changes))
        return
    code, line = refusal(settings(pod, **changes))
    assert code == PORT
    assert line.endswith("the workers run as uid 1000: choose a port of 1024 or above (ssh.port)")


def test_our_own_image_is_broken(pod: Path) -> None:
    (pod / "tools" / "sshd-start").unlink()
    assert refusal(settings(pod)) == (
        HELPER_MISSING,
        f"{pod}/tools/sshd-start can't be read: No such file or directory; this image is not the project's own, or "
        "broken",
    )


# ---- the command ----


@pytest.fixture
def environment(pod: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MPI_SSH_KEYS", str(pod / "keys"))
    monkeypatch.setenv("MPI_SSH_VOLUME", str(pod / "volume"))
    monkeypatch.setenv("MPI_AGENT_TOOLS", str(pod / "tools"))
    monkeypatch.setenv("MPI_AGENT_TERMINATION_LOG", str(pod / "log"))
    (pod / "log").touch()
    return pod


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["sshd-bootstrap", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_it_says_nothing_if_all_is_well(
    environment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch) == 0
    assert capsys.readouterr() == ("", "")
    assert (environment / "log").read_text() == ""
    assert "run/ssh_host_key" in tree(environment)


def test_as_the_worker_agents_hook_it_ends_when_the_agent_listens(environment: Path) -> None:
    with socket.socket() as agent:
        agent.bind(("127.0.0.1", 0))
        port = str(agent.getsockname()[1])
        hook = subprocess.Popen([sys.executable, "-m", "sshd_bootstrap"], env={**os.environ, "MPI_WORKER_PORT": port})
        until((environment / "volume/run/ssh_host_key").exists, "it has prepared all")
        agent.listen()
        agent.settimeout(DEADLINE_S)
        agent.accept()[0].close()
        assert hook.wait(DEADLINE_S) == 0


def test_a_volume_that_may_not_be_written(environment: Path) -> None:
    (environment / "volume").chmod(0o555)
    command = [*NO_CAPABILITIES, sys.executable, "-m", "sshd_bootstrap"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == VOLUME
    assert done.stderr == (
        f"sshd-bootstrap: {environment}/volume/auth in the volume of the ssh keys can't be written: "
        f"uid {os.geteuid()} may not; it must be an emptyDir that this uid may write to\n"
    )


def test_its_last_words_are_where_kubernetes_looks(
    environment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (environment / "keys" / paths.PUBLIC_KEY).unlink()
    assert run(monkeypatch) == 10
    line = (environment / "log").read_text()
    assert line.startswith("the job's ssh Secret (at ")
    assert capsys.readouterr().err == f"sshd-bootstrap: {line}\n"


def test_no_termination_log_is_no_failure(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (environment / "log").unlink()
    monkeypatch.setenv("MPI_SSH_ROLE", "none")
    assert run(monkeypatch) == 2
    assert not (environment / "log").exists()


def test_arguments(environment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--version") == 0
    assert run(monkeypatch, "--help") == 0
    assert "docs/ssh.md" in capsys.readouterr().out
    assert run(monkeypatch, "--no-such-option") == 2
    assert "(see sshd-bootstrap --help)" in capsys.readouterr().err
