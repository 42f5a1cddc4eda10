"""Tests of T9k's MPIJobs under our operator."""
