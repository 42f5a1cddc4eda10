"""The operator: MPIJobs become pods. `plan` decides and touches nothing; the loop around it decides nothing."""
