"""Fixtures of the cluster tests, and what is printed when one fails.

`namespace`  a namespace of the test's own, which enforces Pod Security *restricted*;
             `@pytest.mark.pod_security("baseline")` for another level
`start`      apply a job there: `running = start(Job("openmpi4").run("pi"))`
`local`      the cluster on this machine, where processes of a test's own pods can be seen and killed
`node`       its node, whose daemons can end; such tests run alone
             Where the cluster is not the tests' own, both are skipped.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import IO, TYPE_CHECKING

import pytest
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from kubernetes.dynamic.exceptions import ForbiddenError
from urllib3.exceptions import HTTPError

from images import catalog
from tests.cluster.core import is_core, without_test
from tests.cluster.failure import describe
from tests.cluster.faults import local, node  # noqa: F401 (fixtures)
from tests.cluster.images import NPB, image, is_asked_for
from tests.cluster.kube import Api, Namespace, remove_leftovers
from tests.cluster.running import Running
from tests.cluster.turns import Turns, group, one_session, order

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from tests.cluster.jobs import Job

_GONE_S = 120.0
_TEST_S = 600.0  # pods start slowly where many do at once, and programs beside ours are built once, from modules
_NUMBERS = itertools.count()
_made: list[Namespace] = []  # all of this session
_TURNS = pytest.StashKey[Turns]()
_SESSION = pytest.StashKey[IO[str]]()
_BEGAN = pytest.StashKey[int]()  # how many there were when a test began


def pytest_configure(config: pytest.Config) -> None:
    """Say what is missing before any test does."""
    config.addinivalue_line("markers", "pod_security(level): what the test's namespace enforces (default: restricted)")
    config.addinivalue_line("markers", "needs_image(name): skipped where the cluster isn't known to have this image")
    config.addinivalue_line("markers", "alone: changes what other tests use, and so has the cluster to itself")
    config.addinivalue_line("markers", "slow: takes a minute or more")
    config.addinivalue_line("markers", "core: `make test-core` runs it (tests/cluster/core.py)")
    config.addinivalue_line("markers", "release: takes the cluster minutes; `make test-release` runs it")
    if not os.environ.get("KUBECONFIG") and not config.option.collectonly:
        pytest.exit("the cluster tests need KUBECONFIG: run them by `make test-cluster`", returncode=2)
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        config.stash[_SESSION] = one_session()  # to the end of the process that starts the others
    config.stash[_TURNS] = Turns()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put each test into its group, and give it more time than tests have that need no cluster."""
    if (name := group(item)) != item.nodeid:  # else xdist takes it by itself
        item.add_marker(pytest.mark.xdist_group(name))
    if is_core(item.nodeid):
        item.add_marker(pytest.mark.core)
    if not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(_TEST_S))


@pytest.hookimpl(tryfirst=True)  # before xdist puts the groups behind the names
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the groups in their order. A run of the core has all of it."""
    if "core" in config.option.markexpr and (names := without_test(item.nodeid for item in items)):
        raise pytest.UsageError(f"tests/cluster/core.py names what is no test: {', '.join(names)}")
    items.sort(key=order)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)  # before pytest-timeout counts
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Wait for a test's turn."""
    turns = item.config.stash[_TURNS]
    turns.begin(item)
    yield
    turns.end(item, nextitem)


@pytest.fixture(scope="session")
def api(turns: Turns) -> Iterator[Api]:
    """The cluster's API server; nothing of an earlier run is there."""
    kubeconfig = os.environ["KUBECONFIG"]
    try:
        made = Api(kubeconfig)
    except (ConfigException, ApiException, HTTPError) as error:
        said = " ".join(str(error).split())
        pytest.exit(f"the cluster that KUBECONFIG={kubeconfig} names can't be used: {said[:300]}", returncode=2)
    with turns.emptied.locked():
        if turns.emptied.said() is None:
            remove_leftovers(made)
            turns.emptied.say("")
    yield made
    made.close()


@pytest.fixture(scope="session")
def turns(request: pytest.FixtureRequest) -> Turns:
    """Which tests run side by side."""
    return request.config.stash[_TURNS]


@pytest.fixture(scope="session")
def images_there(api: Api) -> set[str]:
    """Names of the images that the nodes tell of, without what containerd puts before those of no registry."""
    found: set[str] = set()
    with contextlib.suppress(ForbiddenError):
        for one in api.call("get", api.path("Node", "v1"))["items"]:
            found |= {name for known in one["status"].get("images") or () for name in known.get("names") or ()}
    return {name.removeprefix("docker.io/library/") for name in found}


@pytest.fixture(autouse=True)
def _needed_images(request: pytest.FixtureRequest) -> None:
    """Skip a test whose image was not built, unless the cluster has it from before."""
    for mark in request.node.iter_markers("needs_image"):
        wanted = image(mark.args[0])
        if catalog.IMAGES[mark.args[0]].given and not NPB.exists():
            pytest.skip(f"there is no {NPB}, which {wanted} is built from")
        # A node tells of what it has pulled, and so of nothing that waits in a registry.
        if not is_asked_for(mark.args[0]) and wanted not in request.getfixturevalue("images_there"):
            pytest.skip(f"no node has {wanted}, which CLUSTER_IMAGES={mark.args[0]} builds, or says is in the registry")


@pytest.fixture(scope="session")
def new_namespace(api: Api) -> Iterator[Callable[[str], Namespace]]:
    """Make a namespace that enforces a Pod Security level; all are gone when the session ends."""

    def new(level: str) -> Namespace:
        namespace = Namespace(api, f"mpi-{os.getpid()}-{next(_NUMBERS)}")
        namespace.create(level)
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
def no_namespace_ends(api: Api) -> None:
    """The namespaces of earlier tests are gone: what ends in them can't be seen in a test's own counts."""
    for one in api.call("get", api.path("Namespace", "v1"))["items"]:
        if "deletionTimestamp" in one["metadata"]:
            Namespace(api, one["metadata"]["name"]).wait_deleted("Namespace", one["metadata"]["name"], _GONE_S)


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
