"""`pet-fairseq score`: scores of what a model generated or chose, as JSON."""
