"""`pet-fairseq report RUNS`: measure finished runs, write a table and plots."""

from .tables import write_report

__all__ = ["write_report"]
