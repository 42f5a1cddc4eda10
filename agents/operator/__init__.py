"""The operator: creates pods from MPIJobs. `plan` decides and changes nothing; the loop around it decides nothing."""
