"""Tests of jobs whose daemons are started by ssh, under our operator."""
