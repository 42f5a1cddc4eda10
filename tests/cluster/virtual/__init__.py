"""Tests of virtual clusters: nodes stay up, and their user logs in and starts jobs by hand."""
