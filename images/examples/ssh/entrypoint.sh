#!/bin/sh
# entrypoint.sh COMMAND…: in a launcher, wait until its own name and the hosts of the hostfile have addresses; then run the
# command. A name is looked up at most ten times more, after 0.1 s, 0.2 s, 0.4 s, …, as in mpi-operator's own images.
wait_for() {
    for pause in 0.1 0.2 0.4 0.8 1.6 3.2 6.4 12.8 25.6 51.2; do
        getent hosts "$1" >/dev/null && return
        sleep "$pause"
    done
}

if [ "${K_MPI_JOB_ROLE:-}" = launcher ]; then
    for host in "$HOSTNAME" $(cut -d : -f 1 /etc/mpi/hostfile); do
        wait_for "$host"
    done
fi
exec "$@"
