"""What a launch through the agents costs beside `kubectl exec`: `make bench` (docs/performance.md)."""
