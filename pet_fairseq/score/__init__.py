"""`pet-fairseq score`: scores of what a model wrote or chose, as JSON."""
