"""Runs in the formats of others: ATIF trajectories, Harbor jobs."""

from .export import ExportFormat, ExportReport, export_run

__all__ = ["ExportFormat", "ExportReport", "export_run"]
