"""The command line: what it sets, what of kubeflow's it takes, and what a mistake gets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import click
import pytest

from agents.job.model import Tool
from agents.kube.access import AccessError
from agents.operator import cli
from agents.operator.other_operators import NAMESPACES, Claim
from agents.operator.process import T9k
from agents.operator.settings import PodSettings
from rshagent import __version__


class Process:
    """What the command starts."""

    made: list[Process]

    def __init__(self, access: Any, plan: Any, settings: PodSettings, options: Any) -> None:
        self.settings, self.options = settings, options
        self.served: tuple[str, int] | None = None
        Process.made = [self]

    def serve(self, host: str, port: int) -> None:
        self.served = (host, port)
        if port == 1:
            raise PermissionError(13, "Permission denied")

    def run(self) -> bool:
        return self.settings.image != "lost:1"


@pytest.fixture(autouse=True)
def _process(monkeypatch: pytest.MonkeyPatch) -> Any:
    def load(kubeconfig: str, connections: int) -> object:
        if kubeconfig == "/nowhere":
            raise AccessError("no cluster is configured by /nowhere: x")
        return object()

    monkeypatch.setattr(cli, "Process", Process)
    monkeypatch.setattr(cli, "load", load)
    monkeypatch.setattr(cli, "_stop", lambda *_: None)
    for name in [name for name in os.environ if name.startswith(("MPI_OPERATOR", "KUBEFLOW"))]:
        monkeypatch.delenv(name)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def run(*arguments: str) -> int:
    return int(cli.command.main(args=cli.dashed(list(arguments)), standalone_mode=False))


def started() -> Process:
    return Process.made[0]


def test_nothing_needs_to_be_given() -> None:
    assert run() == 0
    process = started()
    assert process.served == ("", 8080)
    assert process.settings.image == f"mpi-agents:{__version__}"
    assert process.options.namespaces == ()
    assert process.options.claim is Claim.AUTO
    assert process.options.other_operator_namespaces == NAMESPACES
    assert process.options.t9k is T9k.AUTO
    assert process.settings.has_worker_agent
    assert (process.options.lease_namespace, process.options.lease_name) == ("default", "mpi-agents-operator")


def test_every_setting_of_pods() -> None:
    run(
        *("--image", "r/agents:2", "--image-pull-policy", "Always", "--image-pull-secret", "a,b"),
        *("--image-pull-secret", "c", "--cluster-domain", "cluster.local", "--gang-scheduling", "volcano"),
        *("--wait-timeout", "30m", "--no-worker-agent", "--agent-cpu-limit", "100m"),
        *("--tool", "kubectl", "--kubectl-image", "r/with-kubectl:3"),
    )
    assert started().settings == PodSettings(
        image="r/agents:2",
        kubectl_image="r/with-kubectl:3",
        tools=(Tool.KUBECTL,),
        image_pull_policy="Always",
        image_pull_secrets=("a", "b", "c"),
        cluster_domain="cluster.local",
        gang_scheduler="volcano",
        wait_timeout="30m",
        has_worker_agent=False,
        cpu_limit="100m",
    )


def test_every_option_of_the_process() -> None:
    run(
        *("--namespace", "a,b", "--namespace", "c", "--selector", "team=x", "--adopt", "given", "--workers", "3"),
        *("--no-leader-elect", "--lease-namespace", "ours", "--lease-name", "l", "--port", "0", "--t9k", "off"),
    )
    options = started().options
    assert started().served is None
    assert (options.namespaces, options.selector, options.claim) == (("a", "b", "c"), "team=x", Claim.ASSIGNED)
    assert options.t9k is T9k.OFF
    assert (options.workers, options.elects, options.lease_namespace, options.lease_name) == (3, False, "ours", "l")


@pytest.mark.parametrize(
    ("words", "found"),
    [(["a,b", "c"], ("a", "b", "c")), (["a b"], ("a", "b")), ([""], ()), (["", "a"], ("a",))],
)
def test_where_other_operators_are_looked_for(words: list[str], found: tuple[str, ...]) -> None:
    run(*(f"--other-operator-namespace={one}" for one in words))
    assert started().options.other_operator_namespaces == found


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (["-namespace=a"], "namespaces", ("a",)),
        (["-threadiness", "4"], "workers", 4),
        (["-lock-namespace", "mpi-operator"], "lease_namespace", "mpi-operator"),
        (["-kube-api-qps=100", "-kube-api-burst", "200", "-alsologtostderr", "-v=4", "-v", "4"], "workers", 8),
    ],
)
def test_kubeflow_s_flags(arguments: list[str], field: str, value: object) -> None:
    assert run(*arguments) == 0
    assert getattr(started().options, field) == value


def test_kubeflow_s_monitoring_port_and_namespace_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEFLOW_NAMESPACE", "team")
    run("-monitoring-port=8090")
    assert started().served == ("", 8090)
    assert started().options.namespaces == ("team",)


def test_every_option_has_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPI_OPERATOR_NAMESPACE", "a,b")
    monkeypatch.setenv("MPI_OPERATOR_IMAGE", "from-environment:1")
    monkeypatch.setenv("MPI_OPERATOR_LEADER_ELECT", "false")
    monkeypatch.setenv("MPI_OPERATOR_IMAGE_PULL_SECRET", "s")
    run()
    assert started().options.namespaces == ("a", "b")
    assert started().settings.image == "from-environment:1"
    assert started().settings.image_pull_secrets == ("s",)
    assert not started().options.elects


def test_what_is_ignored_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    run("--kube-api-qps", "100")
    assert "--kube-api-qps is accepted for compatibility with kubeflow and has no effect" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--kubeconfig", "/nowhere"], cli.SETUP, "no cluster is configured by /nowhere"),
        (["--port", "1"], cli.SETUP, "can't listen on port 1 for health and metrics: Permission denied (--port)"),
        (["--image", "lost:1"], cli.LOST, ""),
    ],
)
def test_ends(arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == code
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--workers", "0"], ["--adopt", "some"], ["--t9k", "yes"], ["--unknown"], ["word"]]
)
def test_mistakes_are_usage_errors(arguments: list[str]) -> None:
    with pytest.raises(click.UsageError):
        run(*arguments)


def test_a_mistake_is_one_line_and_no_traceback() -> None:
    script = "from agents.operator.cli import main; import sys; sys.argv = ['mpi-operator', '--adopt', 'x']; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == cli.USAGE
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("mpi-operator: Invalid value for '--adopt'")


def test_it_starts_without_what_costs_memory() -> None:
    """The models of the typed API would double the start and the memory; what makes keys costs 11 MiB."""
    script = "import agents.operator.cli, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert [name for name in done.stdout.split() if ".client.models." in name or name == "cryptography"] == []


@pytest.mark.parametrize(("given", "user"), [((), 65532), (("--run-as-user=7",), 7), (("--run-as-user=none",), None)])
def test_the_user_of_our_containers_is_one_of_ours_or_the_platforms(given: tuple[str, ...], user: int | None) -> None:
    assert run(*given) == 0
    assert Process.made[0].settings.run_as_user == user


@pytest.mark.parametrize("given", ["0", "root", "-1", ""])
def test_our_containers_run_as_nobody_else(given: str) -> None:
    with pytest.raises(click.BadParameter, match="above 0, or none"):
        run(f"--run-as-user={given}")


@pytest.mark.parametrize("given", ["0", "0m", "-1", "1x", "1 ", "1e999", ""])
def test_our_containers_have_some_cpu(given: str) -> None:
    with pytest.raises(click.BadParameter, match="a quantity above 0"):
        run(f"--agent-cpu-limit={given}")
