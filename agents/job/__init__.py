"""The MPIJob, whatever dialect it is written in: one model, read from each dialect and written back as its status. Pure."""
