"""Schedules: launches that Temporal starts by the clock."""
