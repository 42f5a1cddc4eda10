"""The parts of `agents.operator.plan`, a matter a file. Pure."""
