"""What a collection holds as a whole: most similar pairs, duplicates, clusters, a map of them."""

from sbert_retriever.mining.clusters import Cluster, Clusters, find_clusters
from sbert_retriever.mining.community import communities
from sbert_retriever.mining.duplicates import DuplicatePair, Duplicates, find_duplicates
from sbert_retriever.mining.pairs import PairsFound, SimilarPair, most_similar_pairs, pairs_at_least
from sbert_retriever.mining.picture import write_picture

__all__ = [
    "find_duplicates",
    "Duplicates",
    "DuplicatePair",
    "find_clusters",
    "Clusters",
    "Cluster",
    "write_picture",
    "most_similar_pairs",
    "SimilarPair",
    "pairs_at_least",
    "PairsFound",
    "communities",
]
