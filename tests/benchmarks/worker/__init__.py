"""What the worker agent costs."""
