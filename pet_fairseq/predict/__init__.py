"""Text in, answers out: what `pet-fairseq predict`, `pet-fairseq serve` and Python share."""
