"""The cluster's daemons: command lines and configuration files, as functions of where things are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .daemons import Daemon
from .network import API_SERVICE, GATEWAY
from .pki import FRONT_PROXY, NODE

if TYPE_CHECKING:
    from pathlib import Path

    from .places import Places

PAUSE_IMAGE = "localhost/pause:1"
ETCD = "http://127.0.0.1:2379"
OTHER_DOMAIN = "mpi.example"  # names are under this one as well, for who is told that it is the cluster's
VERIFIES_PULLS_SINCE = 35

NAMES = (
    "containerd",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "coredns",
)  # in the order in which they start


def daemons(places: Places) -> dict[str, Daemon]:
    """Return all daemons by name."""
    run, pki = places.run, places.pki
    commands: dict[str, list[str | Path]] = {
        "containerd": [places.containerd / "containerd", "-c", run / "containerd.toml"],
        "etcd": [
            "etcd",
            *(f"--data-dir={run}/etcd", f"--listen-client-urls={ETCD}", f"--advertise-client-urls={ETCD}"),
            *("--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380"),
            *("--initial-cluster=default=http://127.0.0.1:2380", "--log-level=warn", "--unsafe-no-fsync"),
        ],
        "kube-apiserver": [places.bin / "kube-apiserver", *_api_server(run, pki)],
        "kube-controller-manager": [
            *(f"{places.bin}/kube-controller-manager", *_as(pki / "controller-manager.conf", run)),
            *("--use-service-account-credentials=true", f"--service-account-private-key-file={pki}/sa.key"),
            *(f"--root-ca-file={pki}/ca.crt", "--kube-api-qps=200", "--kube-api-burst=400"),
        ],
        "kube-scheduler": [
            *(f"{places.bin}/kube-scheduler", *_as(pki / "scheduler.conf", run)),
            *("--kube-api-qps=200", "--kube-api-burst=400"),
        ],
        "kubelet": [
            *(f"{places.bin}/kubelet", f"--config={run}/kubelet.json", f"--kubeconfig={pki}/kubelet.conf"),
            *(f"--hostname-override={NODE}", f"--root-dir={run}/kubelet", f"--cert-dir={run}/kubelet-pki"),
            f"--node-ip={GATEWAY}",  # no Service has an endpoint on loopback, where pods of its network would be
            f"--container-runtime-endpoint=unix://{places.containerd_socket}",
        ],
        "coredns": [places.coredns / "coredns", "-conf", run / "Corefile"],
    }
    return {name: Daemon(name, commands[name], run, places.logs) for name in NAMES}


def write_configuration(places: Places) -> None:
    """Write the files that the command lines name."""
    places.run.mkdir(parents=True, exist_ok=True)
    (places.run / "containerd.toml").write_text(_containerd(places))
    (places.run / "kubelet.json").write_text(json.dumps(_kubelet(places), indent=1))
    (places.run / "Corefile").write_text(_corefile(places))


def _api_server(run: Path, pki: Path) -> list[str]:
    return [
        *("--bind-address=127.0.0.1", "--secure-port=6443", f"--advertise-address={GATEWAY}", "--profiling=false"),
        *("--endpoint-reconciler-type=none", f"--etcd-servers={ETCD}"),
        f"--service-cluster-ip-range={API_SERVICE.rsplit('.', 2)[0]}.0.0/16",
        *(f"--client-ca-file={pki}/ca.crt", f"--cert-dir={run}/kube-apiserver"),
        *(f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key"),
        *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--anonymous-auth=false"),
        *("--allow-privileged=true", "--service-account-issuer=https://kubernetes.default.svc"),
        *(f"--service-account-key-file={pki}/sa.pub", f"--service-account-signing-key-file={pki}/sa.key"),
        *(f"--kubelet-certificate-authority={pki}/ca.crt", "--kubelet-preferred-address-types=Hostname"),
        *(f"--kubelet-client-certificate={pki}/kubelet-client.crt", f"--kubelet-client-key={pki}/kubelet-client.key"),
        # For API servers behind it: who asks.
        *(f"--requestheader-client-ca-file={pki}/ca.crt", f"--requestheader-allowed-names={FRONT_PROXY}"),
        *("--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group"),
        *("--requestheader-extra-headers-prefix=X-Remote-Extra-", f"--proxy-client-key-file={pki}/front-proxy.key"),
        f"--proxy-client-cert-file={pki}/front-proxy.crt",
    ]


def _as(kubeconfig: Path, run: Path) -> list[str]:
    options = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    named = [f"--{option}={kubeconfig}" for option in options]
    return [*named, "--bind-address=127.0.0.1", "--leader-elect=false", f"--cert-dir={run}/{kubeconfig.stem}"]


def _containerd(places: Places) -> str:
    return f"""\
version = 3
disabled_plugins = ["io.containerd.nri.v1.nri"]  # its socket would be the machine's
root = "{places.content}"
state = "{places.run}/containerd"
[grpc]
  address = "{places.containerd_socket}"
[plugins."io.containerd.grpc.v1.cri"]
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE no sandbox starts otherwise
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{places.run}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      runtime_path = "{places.containerd}/containerd-shim-runc-v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = "{places.containerd}/runc"
        SystemdCgroup = false
"""


def _kubelet(places: Places) -> dict[str, object]:
    pki = places.pki
    configuration: dict[str, object] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "healthzBindAddress": "127.0.0.1",
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / "kubelet-server.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet-server.key"),
        "cgroupDriver": "cgroupfs",
        "oomScoreAdj": 0,
        "failSwapOn": False,
        "failCgroupV1": False,
        "makeIPTablesUtilChains": False,
        "nodeStatusUpdateFrequency": "2s",  # the node is Ready 5 s sooner
        "clusterDNS": [GATEWAY],
        "clusterDomain": "cluster.local",
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "100Mi", "imagefs.available": "100Mi"},
        "serializeImagePulls": False,
        "maxPods": 250,
    }
    if places.minor >= VERIFIES_PULLS_SINCE:  # else a test's pull of our image keeps all others from using it
        configuration["imagePullCredentialsVerificationPolicy"] = "NeverVerify"
    return configuration


def _corefile(places: Places) -> str:
    return f"""\
.:53 {{
    bind {GATEWAY}
    errors
    kubernetes cluster.local {OTHER_DOMAIN} in-addr.arpa {{
        kubeconfig {places.kubeconfig}
        pods insecure
    }}
}}
"""
