"""`pet-fairseq report RUNS`: measure finished runs, write tables and plots."""

from .write import write_report

__all__ = ["write_report"]
