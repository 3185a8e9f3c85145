"""How good a ranking is, from the files that the field keeps its test collections in."""
