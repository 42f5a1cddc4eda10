"""python -m sshd_bootstrap."""

from sshd_bootstrap.cli import main

main()
