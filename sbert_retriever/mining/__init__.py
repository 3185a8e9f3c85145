"""What a collection holds as a whole: most similar pairs, duplicates, clusters."""

from sbert_retriever.mining.duplicates import DuplicatePair, Duplicates, find_duplicates
from sbert_retriever.mining.pairs import PairsFound, SimilarPair, most_similar_pairs, pairs_at_least

__all__ = [
    "find_duplicates",
    "DuplicatePair",
    "Duplicates",
    "most_similar_pairs",
    "pairs_at_least",
    "SimilarPair",
    "PairsFound",
]
