"""A launcher that is to wait for nobody: its job is debugged, and its workers run no sshd."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from delivery.cli import command
from delivery.exits import READY, USAGE, DeliveryError
from delivery.settings import Options, settings
from tests.keys import write_keys

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for folder in ("keys", "volume"):
        (tmp_path / folder).mkdir()
    write_keys(tmp_path / "keys")
    (tmp_path / "hostfile").write_text("pi-worker-0.invalid slots=1\n")
    found = {
        "MPI_AGENT_TRANSPORT": "ssh",
        "MPI_AGENT_HOSTFILE": str(tmp_path / "hostfile"),
        "MPI_AGENT_TERMINATION_LOG": str(tmp_path / "log"),
        "MPI_SSH_ROLE": "launcher",
        "MPI_SSH_KEYS": str(tmp_path / "keys"),
        "MPI_SSH_VOLUME": str(tmp_path / "volume"),
        "MPI_AGENT_WAIT": "false",
    }
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


def test_ssh_is_prepared_and_nobody_is_waited_for(
    environ: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command.main(args=[], standalone_mode=False) == READY
    assert (tmp_path / "volume/run/ssh_config").exists()
    assert "not waiting for workers" in capfd.readouterr().err


@pytest.mark.parametrize(("text", "waits"), [("", True), ("true", True), ("false", False)])
def test_the_variable(text: str, waits: bool) -> None:
    assert settings(Options(), {"HOSTNAME": "x", "MPI_AGENT_WAIT": text}).waits is waits


def test_a_variable_that_says_neither() -> None:
    with pytest.raises(DeliveryError, match="MPI_AGENT_WAIT is 'no', and must be true or false") as error:
        settings(Options(), {"HOSTNAME": "x", "MPI_AGENT_WAIT": "no"})
    assert error.value.exit_code == USAGE
