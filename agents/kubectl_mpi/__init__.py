"""The command `kubectl mpi`: a thin layer on `agents.client`.

- cli: all commands, errors as exit codes; options: what they share. Each other file has the commands of one kind
- group: how the command line is read, and names of jobs completed; completing: the same for kubectl
- tables: what is shown, without I/O; live: screens that are drawn again
"""
