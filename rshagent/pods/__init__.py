"""Pods as the API server shows them, by one list and one watch."""
