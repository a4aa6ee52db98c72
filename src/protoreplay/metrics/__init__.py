"""Counts become metrics, intervals and paired tests: pure functions."""
