"""Application containers: programs of another image, which has no runtime, beside the runtime's container."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster import pods as of
from tests.cluster.images import image
from tests.cluster.virtual.virtualcluster import Running, VirtualCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Done, Namespace
    from tests.cluster.operator.release import Release

BY_NODE = "--map-by ppr:1:node"
EXAMPLE = Path(__file__).parents[3] / "examples" / "virtual" / "application.yaml"
TWO = ["vc-node-0", "vc-node-1"]


def written(transport: str) -> VirtualCluster:
    """By exec with a DVM and two containers, of which prun is in the second; by ssh with one, which always runs all."""
    is_exec = transport == "exec"
    one = [{"name": "app", "image": image("mpi"), "imagePullPolicy": "IfNotPresent"}]
    two = [*one, {"name": "tools", "image": image("mpi-runtime"), "imagePullPolicy": "IfNotPresent"}]
    application = {"containers": two if is_exec else one, "wrap": "explicit" if is_exec else "always"}
    cluster = VirtualCluster(transport=transport, dvm={"enabled": is_exec}, application=application)
    cluster.main["image"] = image("runtime")
    cluster.main["securityContext"]["capabilities"] = {"drop": ["ALL"]}
    return cluster


@pytest.fixture(scope="module", params=["exec", "ssh"])
def running(
    request: pytest.FixtureRequest, installed: Release, new_namespace: Callable[[str], Namespace]
) -> Iterator[Running]:
    namespace = new_namespace("restricted")
    found = Running(namespace, written(request.param)).start()
    found.until_ready(2)
    yield found
    namespace.delete("Namespace", namespace.name)


def typed(running: Running, line: str, container: str = "mpi") -> Done:
    return running.namespace.exec_in(running.login, ["/bin/sh", "-c", line], container)


def is_exec(running: Running) -> bool:
    return bool(running.job.spec["transport"] == "exec")


def test_ranks_find_each_other_from_their_image(running: Running) -> None:
    if is_exec(running):
        assert running.hosts(f"prterun {BY_NODE} mpi-wrap --container app") == TWO
        assert running.hosts(f"prun {BY_NODE} mpi-wrap --container app") == TWO
    else:  # what PRRTE finds in its own container, and mpi-wrap in the other
        assert running.hosts(f"prterun {BY_NODE} env") == TWO


def test_exit_codes_and_errors_are_those_of_the_program(running: Running) -> None:
    wrap = "mpi-wrap --container app"
    expected = {
        f"{wrap} sh -c 'exit 7'": (7, ""),
        f"{wrap} no-such-program": (127, "no-such-program"),
        f"{wrap} /etc/passwd": (126, "/etc/passwd"),
        "mpi-wrap --container other true": (255, "container other: it has no socket in /run/mpi-app for 10 s"),
    }
    for line, (code, text) in expected.items():
        done = typed(running, line)
        assert (done.code, text in done.errors, len(done.errors.splitlines())) == (code, True, int(code != 7)), done


@pytest.mark.parametrize("running", ["exec"], indirect=True)  # the other one has neither prun there nor a DVM
def test_prun_is_called_inside_of_the_application(running: Running) -> None:
    script = f"echo before; prun {BY_NODE} mpi-wrap --container app pi && echo after"
    named = 'test "$PMIX_SERVER_URI41" = "$(head -n 1 /run/mpi-dvm/uri)" && '
    for done in (
        typed(running, script, "tools"),
        typed(running, f"mpi-wrap --container tools sh -c '{named}{script}'"),
    ):
        assert done.code == 0, done
        assert done.output.startswith("before\n")
        assert done.output.endswith("after\n")
        assert "rank 1 of 2 on vc-node-1" in done.output


def test_a_runner_that_ends_comes_back(running: Running) -> None:
    running.namespace.exec_in(running.login, ["/bin/sh", "-c", "kill -TERM 1"], "app")
    running.namespace.wait(
        running.login, lambda pod: of.restarts(pod, "app") == 1 and of.is_ready(pod), "its container app is back"
    )
    assert typed(running, "mpi-wrap --container app echo here").output == "here\n"


def test_the_example_runs_as_it_is(release: Release, namespace: Namespace) -> None:
    found = Running(namespace, VirtualCluster.of(EXAMPLE)).start()
    found.until_ready(2)
    run = ["/bin/sh", "-c", "prun --map-by ppr:2:node mpi-wrap init_finalize"]
    done = namespace.exec_in(found.login, run, "runtime")
    assert done.code == 0, done
    assert "size=4 nodes=2 ppn=2" in done.output
