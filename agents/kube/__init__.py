"""The Kubernetes API as client and operator use it: kinds, credentials, requests and their errors, other operators."""
