"""Tests on a real cluster: whichever KUBECONFIG names (`make test-cluster` brings one up where there is none).

A test has a namespace of its own (`namespace`), takes a job from `examples/`, changes what it is about (`jobs.Job`),
applies it, and waits for what it expects (`running.Running`). See `conftest.py` for the fixtures and marks.
"""
