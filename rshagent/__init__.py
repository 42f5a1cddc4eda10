"""The rsh agent: what MPI launchers call to start their daemons in worker pods."""
