"""One session, from the call to its exit code."""
