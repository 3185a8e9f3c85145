"""Texts to vectors: find a checkpoint, read it, batch by tokens, run it, pool."""
