"""Worked hierarchies to run, read and copy."""
