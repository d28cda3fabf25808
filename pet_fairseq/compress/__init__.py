"""`pet-fairseq compress TEACHER`: from a trained translation model to a small one."""
