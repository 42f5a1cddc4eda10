#!/bin/sh
# kubexec.sh HOST COMMAND…: our client, in the namespace that CANOPIE's script takes.
MPI_AGENT_NAMESPACE=${NAMESPACE-} exec /usr/local/lib/mpi-agents/kubexec.sh "$@"
