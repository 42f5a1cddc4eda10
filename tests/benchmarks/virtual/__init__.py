"""What the separated model and a DVM cost in a virtual cluster: `make bench-virtual-cluster` (docs/performance.md)."""
