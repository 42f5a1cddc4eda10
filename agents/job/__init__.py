"""The MPIJob, whatever dialect it is written in: one model, and each dialect's status. Pure."""
