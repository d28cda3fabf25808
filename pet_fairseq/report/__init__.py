"""`pet-fairseq report RUNS`: measure finished runs, write tables and plots."""
