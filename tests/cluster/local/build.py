"""What the cluster is made of, all of it made once: Debian's packages, and programs from Go modules.

Kubernetes, containerd with runc, and CoreDNS each have a go.mod and a go.sum here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .places import DEFAULT_VERSION, MODULES, SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .places import Places

_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")

_PACKAGES = {  # by a file that each brings
    "/usr/include/seccomp.h": "libseccomp-dev",  # for runc
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "/usr/bin/etcd": "etcd-server",
    "/usr/sbin/ip": "iproute2",
    "/usr/sbin/iptables": "iptables",
    "/usr/sbin/conntrack": "conntrack",
    "/usr/bin/openssl": "openssl",
    "/usr/sbin/debootstrap": "debootstrap",
    "/usr/sbin/dockerd": "docker.io",
    "/usr/bin/docker": "docker-cli",
    "/usr/bin/gcc": "gcc",
    "/etc/ssl/certs/ca-certificates.crt": "ca-certificates",
}
# A compiler that collects little garbage, and leaves out what only a debugger reads, takes a sixth less time. The same
# options for each program: what two are made of is compiled once.
GO_OPTIONS = ("-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w")
GO_ENVIRONMENT = {"CGO_ENABLED": "0", "GOGC": "400"}
# Services of the machine's own would hold the ports of ours, and stay when we are gone.
_NO_SERVICES = Path("/usr/sbin/policy-rc.d")
_STAGED = re.compile(r"^\s*k8s\.io/(\S+) => \./staging/", re.MULTILINE)


def build(places: Places, say: Callable[[str], None]) -> None:
    """Make what is missing. Raises SetupError."""
    install_packages(places, say)
    if not (places.bin / "kubectl").exists():
        _build_kubernetes(places, say)
    if not places.containerd.exists():
        _build(places, places.containerd, "-tags=seccomp,urfave_cli_no_docs", "tool", cgo=True, say=say)
    if not places.coredns.exists():
        _build(places, places.coredns, ".", say=say)


def _check_machine() -> None:
    if os.geteuid() != 0:
        raise SetupError(
            "a cluster of our own needs root: run this as root, or set KUBECONFIG to a cluster that you have"
        )
    if shutil.which("apt-get") is None:
        raise SetupError("a cluster of our own needs Debian's packages: set KUBECONFIG to a cluster that you have")


def install_packages(places: Places, say: Callable[[str], None]) -> None:
    """Install what is missing of Debian's packages. Raises SetupError."""
    _check_machine()
    missing = [package for path, package in _PACKAGES.items() if not os.path.exists(path)]
    if not missing:
        return
    say(f"installing {', '.join(missing)}")
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    run(places, "apt-get", "update", "-qq", env=env, say=say)
    if "docker.io" in missing and "docker-cli" in missing and not _is_known("docker-cli"):
        missing.remove("docker-cli")  # up to Debian 12 it is a part of the other
    forbids = not _NO_SERVICES.exists()
    if forbids:
        _NO_SERVICES.write_text("#!/bin/sh\nexit 101\n")
        _NO_SERVICES.chmod(0o755)
    try:
        run(places, "apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing, env=env, say=say)
    finally:
        if forbids:
            _NO_SERVICES.unlink()


def _is_known(package: str) -> bool:
    return subprocess.run(["apt-cache", "show", package], capture_output=True, check=False).returncode == 0


def _build_kubernetes(places: Places, say: Callable[[str], None]) -> None:
    say(f"building Kubernetes {places.version}: some minutes, once")
    source = places.cache / f"source-{places.version}"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(MODULES / "hyperkube", source)
    if places.version != DEFAULT_VERSION:
        own = downloaded(f"k8s.io/kubernetes@v{places.version}")
        (source / "go.sum").unlink()
        (source / "go.mod").write_text(go_mod(places.version, Path(own["GoMod"]).read_text()))
        _go(places, "mod", "tidy", cwd=source, say=say)
    package = "k8s.io/component-base/version"
    stamp = f"-X {package}.gitVersion=v{places.version} -X {package}.gitMajor=1 -X {package}.gitMinor={places.minor}"
    *options, linking = GO_OPTIONS
    _go(places, "build", *options, f"{linking} {stamp}", "-o", "hyperkube", ".", cwd=source, say=say)
    places.bin.mkdir(parents=True, exist_ok=True)
    (source / "hyperkube").rename(places.bin / "hyperkube")
    for name in _COMPONENTS:  # kubectl comes last, and says that all of it is there
        link = places.bin / name
        link.unlink(missing_ok=True)
        link.symlink_to("hyperkube")
    shutil.rmtree(source)


def downloaded(module: str) -> dict[str, str]:
    """Return what Go says of `MODULE@VERSION`, which it has now. Raises SetupError."""
    _check_go(module)
    done = subprocess.run(["go", "mod", "download", "-json", module], capture_output=True, text=True, check=False)
    said: dict[str, str] = json.loads(done.stdout or "{}")
    if "Dir" not in said:
        raise SetupError(f"{module} can't be downloaded: {said.get('Error') or done.stderr.strip()}")
    return said


def _check_go(needed: str) -> None:
    if shutil.which("go") is None:
        raise SetupError(f"{needed} is made with Go: install it (https://go.dev)")


def go_mod(version: str, own: str) -> str:
    """Return a go.mod that requires a release of Kubernetes, with the staging modules that its own go.mod names."""
    staged = f"v0.{version.removeprefix('1.')}"
    pins = "".join(f"\tk8s.io/{name} => k8s.io/{name} {staged}\n" for name in _STAGED.findall(own))
    return f"module hyperkube\n\ngo 1.24.0\n\nrequire k8s.io/kubernetes v{version}\n\nreplace (\n{pins})\n"


def _build(places: Places, made: Path, *words: str, cgo: bool = False, say: Callable[[str], None]) -> None:
    """Build the programs of one of our modules into a folder."""
    name = made.name.partition("-")[0]
    say(f"building {name}")
    new = made.with_suffix(".new")
    env = {"CGO_ENABLED": "1" if cgo else "0"}
    _go(places, "build", *GO_OPTIONS, "-o", f"{new}/", *words, cwd=MODULES / name, env=env, say=say)
    new.rename(made)


def _go(
    places: Places,
    *words: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    say: Callable[[str], None],
) -> None:
    _check_go("a cluster of our own (KUBECONFIG names another)")
    run(places, "go", *words, cwd=cwd, env={**GO_ENVIRONMENT, **(env or {})}, say=say)


def run(
    places: Places,
    *command: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    say: Callable[[str], None],
    every_s: float = 30.0,
) -> None:
    """Run a long command with its output in its program's log; say every while that it runs. Raises SetupError."""
    places.cache.mkdir(parents=True, exist_ok=True)
    log = places.cache / f"{Path(command[0]).name}.log"
    began = time.monotonic()
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        try:
            while True:
                try:
                    code = process.wait(every_s)
                    break
                except subprocess.TimeoutExpired:
                    say(f"  {command[0]} {command[1]} runs, {time.monotonic() - began:.0f} s")
        except BaseException:
            process.kill()
            process.wait()
            raise
    if code:
        tail = " | ".join(log.read_text(errors="replace")[-600:].splitlines()[-4:])
        raise SetupError(f"{' '.join(command[:3])} failed ({code}): {tail} (all of it: {log})")
