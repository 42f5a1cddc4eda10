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
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from agents.kube.errors import UnavailableError

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
    """A connection pool for the API server, and the headers that authenticate requests."""

    def __init__(self, configuration: Configuration, connections: int) -> None:
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


def load(kubeconfig: str, connections: int) -> Access:
    """Return the access by a kubeconfig file, else by KUBECONFIG, else by the pod's service account, else ~/.kube.

    `connections`: how many are kept open. Raises AccessError.
    """
    configuration = Configuration()
    try:
        if given := kubeconfig or os.environ.get("KUBECONFIG"):
            load_kube_config(config_file=given, client_configuration=configuration)
        elif os.environ.get("KUBERNETES_SERVICE_HOST"):
            load_incluster_config(client_configuration=configuration)
        else:
            load_kube_config(client_configuration=configuration)
        return Access(configuration, connections)
    except (ConfigException, OSError, ValueError) as error:
        where = kubeconfig or os.environ.get("KUBECONFIG") or "the pod's service account or ~/.kube/config"
        raise AccessError(f"no API server is configured by {where}: {error}") from error


def own_namespace() -> str:
    """The namespace that this process runs in, "default" where there is none."""
    try:
        with open(_NAMESPACE_FILE, encoding="utf-8") as file:
            return file.read().strip() or "default"
    except OSError:
        return "default"
