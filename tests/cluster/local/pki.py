"""A cluster's certificates, service account key and kubeconfigs: made for each cluster, valid for a month."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from agents.playground.certs import Authority

from .network import API_SERVICE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agents.playground.certs import Pair

    from .places import Places

API_SERVER = "https://127.0.0.1:6443"
NODE = "127.0.0.1"  # the node's name, so that its address is loopback, too
FRONT_PROXY = "front-proxy-client"

_CLIENTS = {
    "admin": ("admin", "system:masters"),
    "kubelet-client": ("kube-apiserver-kubelet-client", "system:masters"),
    "front-proxy": (FRONT_PROXY, None),
    "controller-manager": ("system:kube-controller-manager", None),
    "scheduler": ("system:kube-scheduler", None),
    "kubelet": (f"system:node:{NODE}", "system:nodes"),
}


def make(places: Places) -> None:
    """Make all of it, unless it is there."""
    folder = places.pki
    if (folder / "done").exists():
        return
    authority = Authority(str(folder), "kubernetes-ca", days=31)
    authority.server("apiserver", addresses=("127.0.0.1", API_SERVICE))
    authority.server("kubelet-server", addresses=("127.0.0.1",))
    for name, (user, group) in _CLIENTS.items():
        pair = client(authority, user, (group,) if group else ())
        path = places.kubeconfig if name == "admin" else folder / f"{name}.conf"
        path.write_text(kubeconfig(authority.certificate, pair.certificate, pair.key))
        (folder / f"{name}.crt").symlink_to(pair.certificate)
        (folder / f"{name}.key").symlink_to(pair.key)
    service_account_key(folder)
    (folder / "done").touch()


def client(authority: Authority, user: str, groups: Sequence[str] = ()) -> Pair:
    """Make a client's certificate: the user is its common name, the groups its organizations."""
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in groups]
    name = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    file = f"client-{user.replace('/', '-').replace(':', '-')}"
    return authority.issue(file, name, ExtendedKeyUsageOID.CLIENT_AUTH)


def service_account_key(folder: Path) -> None:
    """Make the key that signs service accounts' tokens; a second one makes all tokens of the first worthless."""
    key, public = folder / "sa.key", folder / "sa.pub"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)


def kubeconfig(ca: str, certificate: str, key: str, server: str = API_SERVER) -> str:
    """Return a kubeconfig in JSON, which is YAML as well, and all that our own agents read."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test-cluster", "cluster": {"server": server, "certificate-authority": ca}}],
            "users": [{"name": "test-cluster", "user": {"client-certificate": certificate, "client-key": key}}],
            "contexts": [{"name": "test-cluster", "context": {"cluster": "test-cluster", "user": "test-cluster"}}],
            "current-context": "test-cluster",
        },
        indent=1,
    )
