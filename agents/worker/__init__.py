"""The worker sidecar: monitors sshd and the processes of its pod. It has no API access."""
