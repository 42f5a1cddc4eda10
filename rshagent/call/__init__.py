"""What a call of the launcher means: its arguments, the worker that it names, the command that is run there."""
