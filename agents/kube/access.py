"""The API server's address and credentials: the `kubernetes` package's configuration, TLS and token renewal.

Its typed APIs are not imported: their models would double the memory and the start time.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import urllib3
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, list_kube_config_contexts, load_incluster_config, load_kube_config

from agents.job.json_object import part
from agents.kube.errors import UnavailableError

_KUBECONFIG = "~/.kube/config"
_NAMESPACE_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
_KEEPALIVE = (  # a watch may be silent for a minute: the kernel detects a lost peer within that time
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


class AccessError(Exception):
    """There is no usable configuration; the message says which one was tried."""


class Access:
    """A connection pool for the API server, and the headers that authenticate requests.

    `namespace` is that of the kubeconfig's context, or of the pod that this process runs in.
    """

    def __init__(self, configuration: Configuration, connections: int, namespace: str = "default") -> None:
        self.namespace = namespace
        configuration.connection_pool_maxsize = connections
        configuration.socket_options = list(_KEEPALIVE)
        self.configuration = configuration
        manager = RESTClientObject(configuration).pool_manager
        self.host: str = configuration.host
        self.pool: urllib3.HTTPConnectionPool = manager.connection_from_url(self.host)
        self.path: str = urllib3.util.parse_url(self.host).path or ""  # of a server behind a proxy such as Rancher's

    def headers(self) -> Mapping[str, str]:
        """The headers that authenticate a request; an expired token is renewed first. Raises UnavailableError."""
        try:
            settings = self.configuration.auth_settings().values()
        except (ConfigException, OSError) as error:  # reading the file that the kubelet renews
            raise UnavailableError(f"the token can't be read: {error}") from error
        return {each["key"]: each["value"] for each in settings if each["in"] == "header" and each["value"]}


def load(kubeconfig: str | None, connections: int, context: str | None = None) -> Access:
    """Return the access as kubectl has it: by this file, KUBECONFIG, ~/.kube/config, or the pod's service account.

    `connections`: how many are kept open. Raises AccessError.
    """
    file = kubeconfig or os.environ.get("KUBECONFIG") or None
    is_in_pod = not (file or context or _has_default_file())
    configuration = Configuration()
    try:
        if is_in_pod and os.environ.get("KUBERNETES_SERVICE_HOST"):
            load_incluster_config(client_configuration=configuration)
            return Access(configuration, connections, own_namespace())
        load_kube_config(config_file=file, context=context, client_configuration=configuration)
        return Access(configuration, connections, _namespace(file, context))
    except (ConfigException, OSError, ValueError) as error:
        where = file or f"{_KUBECONFIG} or a pod's service account"
        raise AccessError(f"no cluster is configured by {where}: {error}") from None


def _has_default_file() -> bool:
    """Whether ~/.kube/config says anything: kubectl takes an empty one as missing, too."""
    try:
        return os.path.getsize(os.path.expanduser(_KUBECONFIG)) > 0
    except OSError:
        return False


def _namespace(file: str | None, context: str | None) -> str:
    contexts, active = list_kube_config_contexts(config_file=file)
    chosen = next((one for one in contexts if one.get("name") == context), None) if context else active
    return str(part(chosen, "context").get("namespace") or "default")


def own_namespace() -> str:
    """The namespace that this process runs in, "default" where there is none."""
    try:
        with open(_NAMESPACE_FILE, encoding="utf-8") as file:
            return file.read().strip() or "default"
    except OSError:
        return "default"
