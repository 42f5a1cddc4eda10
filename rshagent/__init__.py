"""The rsh agent: what MPI launchers call to start their daemons in worker pods."""

__version__ = "0.1.0"
