"""Tests of the kind's definition by a real API server: no operator runs, and no pod."""
