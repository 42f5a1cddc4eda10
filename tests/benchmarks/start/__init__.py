"""How long a job takes to start and to end on a real cluster, beside kubeflow's mpi-operator: `make bench-start`."""
