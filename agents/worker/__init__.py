"""The worker sidecar: keeps an eye on sshd and on the processes of its pod. It has no API access."""
