"""`pet-fairseq report RUNS`: measures finished runs, writes tables and plots."""
