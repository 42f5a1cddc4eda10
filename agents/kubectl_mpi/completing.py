"""`kubectl_complete-mpi`, which kubectl runs to complete `kubectl mpi …`.

It gets the words after `mpi` and completes the last one, which may be empty. It prints the completions,
and a last line with a number for the shell, cobra's ShellCompDirective (kubectl's pkg/cmd/plugin_completion.go).
"""

from __future__ import annotations

import sys

try:
    from click.shell_completion import ShellComplete

    from agents.kubectl_mpi.cli import command
except ModuleNotFoundError as error:
    sys.exit(f"kubectl_complete-mpi: {error}: install mpi-agents[client]")

_DEFAULT, _NO_FILES = 0, 4


def main() -> None:
    """Print the completions of sys.argv."""
    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(command, {}, "kubectl mpi", "").get_completions(words, incomplete)
    names = [one for one in found if one.type == "plain"]
    for one in names:
        sys.stdout.write(f"{one.value}\t{one.help}\n" if one.help else f"{one.value}\n")
    sys.stdout.write(f":{_NO_FILES if names or not found else _DEFAULT}\n")


if __name__ == "__main__":
    main()
