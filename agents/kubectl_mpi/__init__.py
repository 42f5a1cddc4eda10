"""The command `kubectl mpi`: a thin layer on `agents.client`.

- options: what all commands share; cli: the commands that read, wait and delete
- tables, screen, printing: what is shown, without I/O; and how it is written
"""
