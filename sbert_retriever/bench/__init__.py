"""How fast it is here: encoding, rescoring, indexing and asking, beside other libraries."""
