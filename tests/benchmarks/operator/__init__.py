"""What the operator costs beside kubeflow's mpi-operator: on kwok nodes for many jobs, on a real node for one."""
