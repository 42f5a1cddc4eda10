"""The parts of `agents.operator.plan`. Pure."""
