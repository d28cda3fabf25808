"""Fast beam search: what fairseq's SequenceGenerator finds, sooner."""
