"""Small agents in and around the pods of an MPI job."""
