"""What delivery is asked to do: kubectl-delivery's command line and environment, and ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.exits import USAGE, DeliveryError
from delivery.pod_wait import selector_in
from delivery.settings import Options, Settings, checked_namespace, settings, translate_go_flags

if TYPE_CHECKING:
    from pathlib import Path

LINES: dict[str, tuple[list[str], list[str]]] = {
    "nothing": ([], []),
    "kubectl-delivery's own CMD": (["-alsologtostderr"], []),
    "switches": (["-logtostderr", "--skip_headers", "-alsologtostderr=true", "--logtostderr=false"], []),
    "values behind a blank": (["-v", "4", "-stderrthreshold", "INFO", "--log_dir", "/tmp", "client"], ["client"]),
    "values behind =": (["-v=4", "--vmodule=a=1,b=2", "-log_file_max_size=1", "-threadiness=2"], []),
    "a switch takes no next argument": (["-alsologtostderr", "kubectl"], ["kubectl"]),
    "namespace": (["-namespace", "ns"], ["--namespace", "ns"]),
    "namespace with =": (["--namespace=ns"], ["--namespace", "ns"]),
    "kubeconfig and master": (["-kubeConfig=/k", "-master", "https://x"], ["--kubeconfig", "/k", "--master", "https://x"]),
    "version": (["-version"], ["--version"]),
    "no version": (["-version=false"], []),
    "ours": (["--timeout", "9m", "--grace=5m", "x", "/x:y"], ["--timeout", "9m", "--grace=5m", "x", "/x:y"]),
    "what nobody knows is left to be refused": (["-nonsense", "--nor=this"], ["-nonsense", "--nor=this"]),
    "end of options": (["-v", "1", "--", "-v", "2"], ["--", "-v", "2"]),
    "value missing": (["-v"], []),
    "namespace missing": (["-namespace"], ["--namespace"]),
    "help": (["--help"], ["--help"]),
}  # fmt: skip


@pytest.mark.parametrize(("given_arguments", "kept"), LINES.values(), ids=LINES)
def test_command_line_of_kubectl_delivery(given_arguments: list[str], kept: list[str]) -> None:
    assert translate_go_flags(given_arguments) == kept


@given(st.lists(st.text(max_size=12)))
def test_no_command_line_crashes_and_tools_stay(arguments: list[str]) -> None:
    tools = [f"tool-{position}" for position in range(3)]
    assert translate_go_flags([*tools, *arguments])[:3] == tools


@pytest.fixture
def etc_hosts(tmp_path: Path) -> str:
    path = tmp_path / "etc-hosts"
    path.write_text("127.0.0.1 localhost\n10.0.0.1\tpi-launcher\n")
    return str(path)


def test_defaults_are_those_of_kubectl_delivery(etc_hosts: str) -> None:
    found = settings(Options(), {"HOSTNAME": "pi-launcher"}, etc_hosts)
    assert (found.hostfile, found.target) == ("/etc/mpi/hostfile", "/opt/kube")
    assert (found.namespace, found.selector, found.limits.timeout_s) == (None, None, None)
    assert (found.limits.grace_s, found.limits.replacement_s) == (600, 60)
    assert [tool.name for tool in found.tools] == ["rshagent"]
    assert found.own_names == {"pi-launcher", "10.0.0.1"}
    assert found.own_line == "10.0.0.1\tpi-launcher"


def test_none_alone_copies_no_tool_and_writes_the_hosts(etc_hosts: str, tmp_path: Path) -> None:
    (tmp_path / "kubexec.sh").write_text("#!/bin/sh\n/opt/kube/kubectl exec $1\n")  # which asks for tools by default
    environ = {"HOSTNAME": "h", "MPI_AGENT_HOSTFILE": str(tmp_path / "hostfile"), "TARGET_DIR": "/run/mpi-agents"}
    found = settings(Options(tools=("none",)), environ, etc_hosts)
    assert (list(found.tools), found.target) == ([], "/run/mpi-agents")


def test_a_pods_name_may_be_another_than_its_host_name(etc_hosts: str) -> None:
    found = settings(Options(), {"HOSTNAME": "pi-launcher", "POD_NAME": "pi-launcher-x7k2p"}, etc_hosts)
    assert found.own_name == "pi-launcher-x7k2p"
    assert found.own_names == {"pi-launcher", "pi-launcher-x7k2p", "10.0.0.1"}


ENVIRON = {
    "HOSTNAME": "pi-launcher",
    "KUBECONFIG": "/env/config",
    "NAMESPACE": "env-ns",
    "TARGET_DIR": "/env/target",
    "MPI_AGENT_HOSTFILE": "/env/hostfile",
    "MPI_AGENT_SELECTOR": "a=b",
    "MPI_AGENT_TOOLS": "/env/tools",
    "MPI_AGENT_WAIT_TIMEOUT": "1h",
    "MPI_AGENT_WAIT_GRACE": "5m",
    "MPI_AGENT_WAIT_REPLACEMENT": "30",
}


def shown(found: Settings) -> dict[str, object]:
    return {
        "kubeconfig": found.environ["KUBECONFIG"],
        "namespace": found.namespace,
        "target": found.target,
        "timeout": found.limits.timeout_s,
        "grace": found.limits.grace_s,
        "replacement": found.limits.replacement_s,
    }


def test_environment_is_heard(etc_hosts: str) -> None:
    found = settings(Options(), ENVIRON, etc_hosts)
    assert (found.hostfile, found.selector, found.tools_folder) == ("/env/hostfile", "a=b", "/env/tools")
    assert shown(found) == {
        "kubeconfig": "/env/config",
        "namespace": "env-ns",
        "target": "/env/target",
        "timeout": 3600,
        "grace": 300,
        "replacement": 30,
    }


def test_options_win_but_kubeconfig_as_upstream_has_it(etc_hosts: str) -> None:
    options = Options("/flag/config", "flag-ns", "/flag/target", "2h", "1m", "10s", ["kubectl"])
    assert shown(settings(options, ENVIRON, etc_hosts)) == {
        "kubeconfig": "/env/config",
        "namespace": "flag-ns",
        "target": "/flag/target",
        "timeout": 7200,
        "grace": 60,
        "replacement": 10,
    }
    assert shown(settings(options, {"HOSTNAME": "x"}, etc_hosts))["kubeconfig"] == "/flag/config"


@pytest.mark.parametrize("none", ["0", "", None])
def test_no_timeout(none: str | None, etc_hosts: str) -> None:
    assert settings(Options(timeout=none), {"HOSTNAME": "x"}, etc_hosts).limits.timeout_s is None


@pytest.mark.parametrize(
    ("options", "environ", "source"),
    [(Options(timeout="soon"), {}, "--timeout"), (Options(), {"MPI_AGENT_WAIT_GRACE": "long"}, "MPI_AGENT_WAIT_GRACE")],
)
def test_wrong_duration_names_where_it_stands(
    options: Options, environ: dict[str, str], source: str, etc_hosts: str
) -> None:
    with pytest.raises(DeliveryError, match=f"^{source}: ") as error:
        settings(options, {"HOSTNAME": "x", **environ}, etc_hosts)
    assert error.value.exit_code == USAGE


@pytest.mark.parametrize("name", ["", "a/b", "a b", "../x", "A", "a.b", "-a", "a\n", "x" * 64])
def test_name_that_is_no_namespace(name: str) -> None:
    assert checked_namespace("my-ns-1") == "my-ns-1"
    with pytest.raises(DeliveryError) as error:
        checked_namespace(name)
    assert error.value.exit_code == USAGE


def test_missing_etc_hosts_is_no_reason_to_fail(tmp_path: Path) -> None:
    assert settings(Options(), {"HOSTNAME": "x"}, str(tmp_path / "none")).own_line == ""


@pytest.mark.parametrize(
    ("labels", "selector"),
    [
        ({"training.kubeflow.org/job-name": "pi", "x": "y"}, "training.kubeflow.org/job-name=pi"),
        ({"mpi-job-name": "pi"}, "mpi-job-name=pi"),
        ({"mpi-job-name": "old", "training.kubeflow.org/job-name": "pi"}, "training.kubeflow.org/job-name=pi"),
        ({"app": "pi"}, None),
        ({"mpi-job-name": ""}, None),
    ],
)
def test_selector_comes_from_the_own_labels(labels: dict[str, str], selector: str | None) -> None:
    assert selector_in(json.dumps({"metadata": {"labels": labels}}).encode()) == selector


def test_ssh_brings_no_tools_and_writes_hosts_only_where_told_to() -> None:
    ssh = {"HOSTNAME": "x", "MPI_AGENT_TRANSPORT": "ssh"}
    found = settings(Options(), ssh)
    assert (found.is_ssh, list(found.tools), found.target) == (True, [], "")
    assert settings(Options(), {**ssh, "TARGET_DIR": "/t"}).target == "/t"
    assert settings(Options(tools=["client"]), ssh).target == "/opt/kube"
    assert not settings(Options(), {"HOSTNAME": "x", "MPI_AGENT_TRANSPORT": "exec"}).is_ssh


@pytest.mark.parametrize(("text", "waits"), [("", True), ("true", True), ("false", False)])
def test_a_launcher_may_be_told_to_wait_for_nobody(text: str, waits: bool) -> None:
    assert settings(Options(), {"HOSTNAME": "x", "MPI_AGENT_WAIT": text}).waits is waits


@pytest.mark.parametrize(
    ("name", "text", "choices"),
    [("MPI_AGENT_TRANSPORT", "rsh", "exec or ssh"), ("MPI_AGENT_WAIT", "no", "true or false")],
)
def test_a_variable_that_says_neither(name: str, text: str, choices: str) -> None:
    with pytest.raises(DeliveryError, match=f"{name} is '{text}', and must be {choices}") as error:
        settings(Options(), {"HOSTNAME": "x", name: text})
    assert error.value.exit_code == USAGE
