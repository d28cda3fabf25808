"""`pet-fairseq serve`: a model with its plugins behind HTTP, its ratio chosen by the load."""
