"""The HTML report: one file that shows a run, or compares several, without a network.

Everything in it comes from task files, plugins and models and is hostile until it is escaped. Markup is
made by :mod:`.markup` only, data for the script by :mod:`.embedding` only; the script builds text nodes,
and the page's own policy lets nothing else run and nothing be loaded.
"""

from .folders import find_runs, is_run
from .overview import write_overview
from .report_file import REPORT_NAME
from .run_page import write_run_report

__all__ = ["REPORT_NAME", "find_runs", "is_run", "write_overview", "write_run_report"]
