"""Tests of our operator, installed by its chart into a real Kubernetes."""
