"""A real Kubernetes on one bare Debian machine, as root: no registry, no virtual machine, nothing left running after.

One node, everything on loopback: etcd, containerd and runc are Debian's; Kubernetes and CoreDNS are built from Go
modules, once, and kept with the docker engine's images in ${XDG_CACHE_HOME:-~/.cache}/mpi-agents/cluster.
"""
