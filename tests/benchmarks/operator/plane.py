"""A control plane of the benchmark's own, with nodes and pods that kwok makes up: nothing in it runs a container.

Its etcd, API server and controller manager are the binaries of the test cluster (`tests.cluster.local`), on other ports
and with their data in a folder of their own, so that both may be up at once.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import urllib3

from agents.kube import access
from agents.kube.api import Api
from agents.kube.errors import ApiError
from agents.kube.kinds import Kind
from agents.playground.certs import Authority
from tests.cluster.local import pki
from tests.cluster.local.daemons import Daemon, until
from tests.cluster.operators.programs import KWOK
from tests.ports import free_port

from .kwok import NODES, configuration, node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from agents.job.json_object import Body
    from tests.cluster.local.places import Places

# A service account in all but its token: the API server's fairness treats it as it would an operator in a pod.
OPERATOR = "system:serviceaccount:default:operator"
_ADMIN = "admin"
_CLIENTS = {
    _ADMIN: ("system:masters",),
    "system:kube-controller-manager": (),
    OPERATOR: ("system:serviceaccounts", "system:serviceaccounts:default"),
}
_START_S = 60.0
_WATCH_S = 3600  # longer than any burst
_CONNECTIONS = 8
_BINDING = Kind("ClusterRoleBinding", "rbac.authorization.k8s.io/v1", "clusterrolebindings")
_FLOW_SCHEMA = Kind("FlowSchema", "flowcontrol.apiserver.k8s.io/v1", "flowschemas")
_NODE = Kind("Node", "v1", "nodes")
# Its rules' requests are counted apart from all others', and treated as the service accounts' are.
_COUNTED = "operator-under-test"


class Plane:
    """A control plane that lives as long as its `with` block."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._folder = Path(tempfile.mkdtemp(prefix="mpi-agents-bench-"))
        self._etcd = f"http://127.0.0.1:{free_port()}"
        self._port = free_port()
        self._daemons = {name: Daemon(name, words, self._folder, self._folder) for name, words in self._commands()}

    def __enter__(self) -> Plane:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.api.close()
        self._stop()

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of one of its users."""
        return self._folder / f"{user.replace(':', '-')}.conf"  # KUBECONFIG is a list, parted by colons

    def daemon(self, name: str, *command: str | Path) -> Daemon:
        """Return a further process, not yet started, that ends with this one at the latest."""
        self._daemons[name] = Daemon(name, [str(word) for word in command], self._folder, self._folder)
        return self._daemons[name]

    def create(self, kind: Kind, body: Body, namespace: str | None = None) -> None:
        """Create an object. Raises ApiError."""
        self.api.create(kind, namespace, {"apiVersion": kind.api_version, "kind": kind.name, **body})

    def is_there(self, path: str) -> bool:
        """Whether the API server answers, and has this."""
        try:
            self._text(path)
        except ApiError:
            return False
        return True

    def watch(self, kind: Kind, namespace: str, *, partial: bool = False) -> Iterator[bytes]:
        """The events of a kind from now on, undecoded: what is spent here the machine does not have."""
        path = kind.path(namespace)
        version = str(self.api.list(path)["metadata"]["resourceVersion"])
        return self.api.watch(path, version=version, timeout_s=_WATCH_S, partial=partial).lines()

    def requests(self) -> int:
        """How many requests the operator has made so far, those for its lease left out."""
        name = "apiserver_flowcontrol_dispatched_requests_total"
        lines = self._text("/metrics").splitlines()
        counted = [line for line in lines if line.startswith(name) and f'flow_schema="{_COUNTED}"' in line]
        return sum(int(float(line.rpartition(" ")[2])) for line in counted)

    def _text(self, path: str) -> str:
        return b"".join(self.api.stream(path, read_s=_START_S).lines()).decode()

    def _start(self) -> None:
        authority = Authority(str(self._folder), "kubernetes-ca")
        authority.server("apiserver", addresses=("127.0.0.1",))
        pki.service_account_key(self._folder)
        server = f"https://127.0.0.1:{self._port}"
        pairs = {user: pki.client(authority, user, groups) for user, groups in _CLIENTS.items()}
        for user, pair in pairs.items():
            text = pki.kubeconfig(authority.certificate, pair.certificate, pair.key, server)
            self.kubeconfig(user).write_text(text)
        (self._folder / "kwok.json").write_text("\n---\n".join(json.dumps(one) for one in configuration()))
        self.api = Api(access.load(str(self.kubeconfig(_ADMIN)), _CONNECTIONS), agent="bench", manager="bench")
        self._daemons["etcd"].start()
        until("etcd's start", self._is_etcd_well, _START_S, self._daemons["etcd"])
        self._daemons["kube-apiserver"].start()
        until("the API server's start", lambda: self.is_there("/readyz"), _START_S, self._daemons["kube-apiserver"])
        for name in ("kube-controller-manager", "kwok"):
            self._daemons[name].start()
        self._set_up()

    def _set_up(self) -> None:
        self.create(_BINDING, _ALL_ALLOWED)
        for schema in _FLOW_SCHEMAS:
            self.create(_FLOW_SCHEMA, schema)
        for number in range(NODES):
            self.create(_NODE, node(number))
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        until("the controllers' start", lambda: self.is_there(account), _START_S)

    def _stop(self) -> None:
        for daemon in reversed(self._daemons.values()):
            daemon.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _is_etcd_well(self) -> bool:
        try:
            answer = urllib3.request("GET", f"{self._etcd}/health", retries=False, timeout=1)
            return bool(answer.json()["health"] == "true")
        except (urllib3.exceptions.HTTPError, ValueError):
            return False

    def _commands(self) -> list[tuple[str, list[str]]]:
        folder, bin_ = self._folder, self._places.bin
        peer = f"http://127.0.0.1:{free_port()}"
        manager = self.kubeconfig("system:kube-controller-manager")
        return [
            ("etcd", [
                *("etcd", f"--data-dir={folder}/etcd", "--log-level=warn", "--unsafe-no-fsync"),
                *(f"--listen-client-urls={self._etcd}", f"--advertise-client-urls={self._etcd}"),
                *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
                f"--initial-cluster=default={peer}",
            ]),
            ("kube-apiserver", [
                *(f"{bin_}/kube-apiserver", "--bind-address=127.0.0.1", f"--secure-port={self._port}"),
                *("--endpoint-reconciler-type=none", f"--etcd-servers={self._etcd}", "--profiling=false"),
                *("--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC"),
                *(f"--client-ca-file={folder}/ca.crt", f"--cert-dir={folder}"),
                *(f"--tls-cert-file={folder}/apiserver.crt", f"--tls-private-key-file={folder}/apiserver.key"),
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={folder}/sa.pub",
                f"--service-account-signing-key-file={folder}/sa.key",
                "--feature-gates=WatchList=false",  # an etcd before 3.5 never ends a watch list
            ]),
            ("kube-controller-manager", [
                *(f"{bin_}/kube-controller-manager", f"--kubeconfig={manager}", "--bind-address=127.0.0.1"),
                *("--secure-port=0", "--leader-elect=false", f"--cert-dir={folder}"),
                *("--use-service-account-credentials=true", f"--service-account-private-key-file={folder}/sa.key"),
                f"--root-ca-file={folder}/ca.crt",
                # With its defaults, it would be what is measured.
                *("--kube-api-qps=2000", "--kube-api-burst=2000", "--concurrent-job-syncs=20"),
            ]),
            ("kwok", [
                *(str(KWOK.binary), f"--kubeconfig={self.kubeconfig(_ADMIN)}", f"--config={folder}/kwok.json"),
                *("--manage-all-nodes=true", "--node-lease-duration-seconds=0"),
            ]),
        ]  # fmt: skip


_OPERATOR = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "default", "name": "operator"}}
_ALL_ALLOWED = {
    "metadata": {"name": "operator"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": OPERATOR}],
}


def _flow_schema(name: str, precedence: int, group: str) -> dict[str, object]:
    resources = {"verbs": ["*"], "apiGroups": [group], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    return {
        "metadata": {"name": name},
        "spec": {
            "matchingPrecedence": precedence,
            "priorityLevelConfiguration": {"name": "workload-low"},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{"subjects": [_OPERATOR], "resourceRules": [resources]}],
        },
    }


_FLOW_SCHEMAS = (_flow_schema("operator-lease", 50, "coordination.k8s.io"), _flow_schema(_COUNTED, 60, "*"))
