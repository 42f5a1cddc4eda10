"""A cluster in a folder: a stand-in API server whose pods are local processes, or containers of a Docker engine.

    from agents.playground import Cluster, Pod

    with Cluster(folder) as cluster:
        cluster.create_workers(4, labels={"job": "pi"})             # worker-0 … worker-3, already ready
        environ = cluster.environ(cluster.token("get pods/exec", "create pods/exec", "list pods", "watch pods"))
        mpirun = cluster.exec_local("worker-0", ["mpirun", …], env=environ, stdout=PIPE)

What it is not, with processes: pods are process trees of one user on one machine. They have a home, a temporary folder,
an environment, a name and an address of their own; a host name, a hosts file, mounts, process ids and /dev/shm of their
own only where namespaces are allowed (`Cluster.mounts`, `.processes_apart`). Pods share everything else, and
the containers of a pod are not separated: images, users, resources and most probes have no effect.

The files, from the API inwards:

- cluster (the handle), server_process, control, channel, server, listener, api: a request from the socket to its answer
- rest, writes, watch, deletion, store, resources, access, selector, table, discovery, definitions: the API's objects,
  without I/O; tests use them without a server
- exec_session, pipes, faults, watch_stream, logs: streams, and what a test does to them
- kubelet, sandbox, lifecycle, pod_status, manifest, volumes, pods, controllers: what happens to an object
- runtime: what carries out a pod's containers; process_runtime: as processes, container_runtime: as containers
- processes, shim, namespaces, pod_process: process trees; engine, engine_stream, container_config: a Docker engine
- cli, apply, demo, follow, operated, documents, render, launchers, wheels, image: the commands

Of the API there are the kinds that the operator and its jobs use (resources.py): reads, watches, writes, merge patches,
owners' garbage collection, what RoleBindings allow, exec, logs. There are no schemas, no scheduler, and of controllers
only that of batch Jobs.
"""

from .cluster import Cluster, ClusterError
from .pod_process import Leftover, PodProcess
from .pods import Pod

__all__ = ["Cluster", "ClusterError", "Leftover", "Pod", "PodProcess"]
