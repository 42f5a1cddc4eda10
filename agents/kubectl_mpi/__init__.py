"""The command `kubectl mpi`: a thin layer on `agents.client`.

- cli: all commands, errors as exit codes; options: what they share. Each other file has the commands of one kind
- tables: what is shown, without I/O; live: screens that are drawn again
"""
