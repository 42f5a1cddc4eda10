#!/bin/sh
# kubexec.sh HOST COMMAND…: our client, in the namespace that CANOPIE's script takes. A hub has one namespace for all of
# its clients, so for another one than the pod's the client runs without.
tools=/usr/local/lib/mpi-agents
read -r own 2>/dev/null </var/run/secrets/kubernetes.io/serviceaccount/namespace || :
if [ "${NAMESPACE:-$own}" != "$own" ]; then
    export MPI_AGENT_NAMESPACE="$NAMESPACE" MPI_AGENT_DIRECT="$tools/rshagent-direct"
fi
exec "$tools/kubexec.sh" "$@"
