"""What the operator costs beside kubeflow's mpi-operator: many jobs at once on kwok's nodes."""
