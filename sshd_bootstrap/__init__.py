"""Prepares what sshd and ssh need in the pods of an ssh job, before the user's container starts."""
