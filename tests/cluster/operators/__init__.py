"""Kubeflow's own operators of the v1 generation, unmodified, as processes beside the cluster; and their users' jobs.

`programs` builds them, `operator` runs one of them, `mpijob` is a job as their users write it, from the examples in
`kubeflow/`.
"""
