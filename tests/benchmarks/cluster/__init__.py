"""What a launch costs on a real cluster, beside kubectl and kubexec.sh: `make bench-cluster` (docs/performance.md)."""
