"""Fixtures of the cluster tests, and what is printed when one fails.

`namespace`  a namespace of the test's own, which enforces Pod Security *restricted*;
             `@pytest.mark.pod_security("baseline")` for another level
`start`      apply a job there: `running = start(Job("openmpi4").run("pi"))`
`node`       the node under the cluster, for tests of faults; where it is not the tests' own they are skipped
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
from typing import TYPE_CHECKING

import pytest
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from kubernetes.dynamic.exceptions import ForbiddenError
from urllib3.exceptions import HTTPError
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.cluster.failure import describe
from tests.cluster.faults import node  # noqa: F401 (a fixture)
from tests.cluster.images import image
from tests.cluster.kube import Api, Namespace
from tests.cluster.running import Running

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from tests.cluster.jobs import Job

_GONE_S = 120.0
_TEST_S = 600.0  # pods start slowly where many do at once, and programs beside ours are built once, from modules
_PLAIN = re.compile(r"tests/cluster/test_(?!faults)")
_NUMBERS = itertools.count()
_made: list[Namespace] = []  # all of this session
_BEGAN = pytest.StashKey[int]()  # how many there were when a test began


def pytest_configure(config: pytest.Config) -> None:
    """Say what is missing before any test does."""
    config.addinivalue_line("markers", "pod_security(level): what the test's namespace enforces (default: restricted)")
    config.addinivalue_line("markers", "needs_image(name): skipped where the cluster isn't known to have this image")
    config.addinivalue_line("markers", "slow: takes a minute or more")
    if not os.environ.get("KUBECONFIG") and not config.option.collectonly:
        pytest.exit("the cluster tests need KUBECONFIG: run them by `make test-cluster`", returncode=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests more time than those have that need no cluster."""
    for item in items:
        if "tests/cluster" in item.nodeid and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_TEST_S))


class Rows(LoadScopeScheduling):  # type: ignore[misc]
    """The tests in two rows, side by side.

    One has those of operators, as a cluster has one definition of MPIJobs, and those of faults; the other those whose
    jobs need no operator.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "plain" if _PLAIN.match(nodeid) else "operators"


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Rows:
    """Have xdist's processes take a row each."""
    return Rows(config, log)


@pytest.fixture(scope="session")
def api() -> Iterator[Api]:
    """The cluster's API server."""
    kubeconfig = os.environ["KUBECONFIG"]
    try:
        made = Api(kubeconfig)
    except (ConfigException, ApiException, HTTPError) as error:
        said = " ".join(str(error).split())
        pytest.exit(f"the cluster that KUBECONFIG={kubeconfig} names can't be used: {said[:300]}", returncode=2)
    yield made
    made.close()


@pytest.fixture(scope="session")
def images_there(api: Api) -> set[str]:
    """Names of the images that the nodes tell of, without what containerd puts before those of no registry."""
    found: set[str] = set()
    with contextlib.suppress(ForbiddenError):
        for one in api.call("get", api.path("Node", "v1"))["items"]:
            found |= {name for known in one["status"].get("images") or () for name in known.get("names") or ()}
    return {name.removeprefix("docker.io/library/") for name in found}


@pytest.fixture(autouse=True)
def _turn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let tests of faults and of many workers have the node to themselves: others queue behind one that waits."""
    folder = tmp_path_factory.getbasetemp().parent  # of all processes that run tests
    with (folder / "queue").open("w") as queue, (folder / "node").open("w") as node_itself:
        fcntl.flock(queue, fcntl.LOCK_EX)
        is_alone = {"node", "fleet"} & {*request.fixturenames}
        fcntl.flock(node_itself, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


@pytest.fixture(autouse=True)
def _needed_images(request: pytest.FixtureRequest) -> None:
    """Skip a test whose image was not built, unless the cluster has it from before."""
    for mark in request.node.iter_markers("needs_image"):
        wanted = image(mark.args[0])
        # A node tells of what it has pulled, and so of nothing that waits in a registry.
        if os.environ.get("CLUSTER_IMAGES") != "all" and wanted not in request.getfixturevalue("images_there"):
            pytest.skip(f"no node has {wanted}, which CLUSTER_IMAGES=all builds, or says is in the registry")


@pytest.fixture(scope="session")
def new_namespace(api: Api) -> Iterator[Callable[[str], Namespace]]:
    """Make a namespace that enforces a Pod Security level; all are gone when the session ends."""

    def new(level: str) -> Namespace:
        namespace = Namespace(api, f"mpi-{os.getpid()}-{next(_NUMBERS)}")
        labels = {"pod-security.kubernetes.io/enforce": level}
        body = {"metadata": {"name": namespace.name, "labels": labels}}
        api.call("post", api.path("Namespace", "v1"), body)
        _made.append(namespace)
        return namespace

    yield new
    for namespace in _made:
        namespace.delete("Namespace", namespace.name)
    for namespace in _made:
        namespace.wait_deleted("Namespace", namespace.name, _GONE_S)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, new_namespace: Callable[[str], Namespace]) -> Iterator[Namespace]:
    """A namespace of the test's own. It is deleted after the test, and nobody waits for that."""
    mark = request.node.get_closest_marker("pod_security")
    made = new_namespace(mark.args[0] if mark else "restricted")
    yield made
    made.delete("Namespace", made.name)


@pytest.fixture
def no_namespace_ends(new_namespace: Callable[[str], Namespace]) -> None:
    """The namespaces of earlier tests are gone: what ends in them can't be seen in a test's own counts."""
    for namespace in _made:
        found = namespace.api.find(namespace.path("Namespace", namespace.name))
        if found is not None and "deletionTimestamp" in found["metadata"]:
            namespace.wait_deleted("Namespace", namespace.name, _GONE_S)


@pytest.fixture
def start(namespace: Namespace) -> Callable[[Job], Running]:
    """Apply a job in the test's namespace."""
    return lambda job: Running(namespace, job).start()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember which namespaces a test can't have made."""
    item.stash[_BEGAN] = len(_made)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.CallInfo[None], None]:
    """Add what the cluster knows of a failed test's namespaces to its report.

    They are those that were made since it began, by whatever fixture, and those of fixtures from before: a fixture
    that is a namespace, or has one as its attribute `namespace`.
    """
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.when != "teardown" and report.failed:
        fixtures = getattr(item, "funcargs", {}).values()
        found = [*(getattr(one, "namespace", one) for one in fixtures), *_made[item.stash[_BEGAN] :]]
        for namespace in {one.name: one for one in found if isinstance(one, Namespace)}.values():
            report.sections.append((f"namespace {namespace.name}", describe(namespace)))
