"""The init agent: waits for the workers, writes the hosts file, copies the tools."""
