"""Processes that are none of ours to wait for."""


def is_alive(pid: int) -> bool:
    """Whether a process runs, and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
