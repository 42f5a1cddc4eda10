"""Virtual clusters on a real Kubernetes."""
