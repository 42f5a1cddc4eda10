"""Bytes of an exec stream in, events out, and what they say of the end."""
