"""What the paper found (Reimers and Gurevych 2019), Spearman and accuracies times 100."""

from __future__ import annotations

# Table 1: the average of the seven STS sets.
STS_AVERAGE = {
    "mean": ("Avg. BERT embeddings", 54.81),
    "cls": ("BERT CLS-vector", 29.19),
    "static": ("Avg. GloVe embeddings", 61.32),
    "nli": ("SBERT-NLI-base", 74.89),
}

# Table 6: STSb dev, trained on NLI by classification, or on STSb by regression.
POOLING = {"mean": (80.78, 87.44), "max": (79.07, 69.92), "cls": (79.80, 86.62)}
CONCATENATION = {
    ("u", "v"): 66.04,
    ("|u-v|",): 69.78,
    ("u*v",): 70.54,
    ("|u-v|", "u*v"): 78.37,
    ("u", "v", "u*v"): 77.44,
    ("u", "v", "|u-v|"): 80.78,
    ("u", "v", "|u-v|", "u*v"): 80.44,
}

# Table 2: STSb test.
STSB = {
    ("bi-encoder", "nli"): ("SBERT-NLI-base", 77.03),
    ("bi-encoder", "sts"): ("SBERT-STSb-base", 84.67),
    ("bi-encoder", "nli, then sts"): ("SBERT-NLI-STSb-base", 85.35),
    ("cross-encoder", "sts"): ("BERT-STSb-base", 84.30),
    ("cross-encoder", "nli, then sts"): ("BERT-NLI-STSb-base", 88.33),
}

# Table 5: MR, CR, SUBJ, MPQA, SST, TREC, MRPC, average.
TRANSFER = {
    "mean": ("Avg. BERT embeddings", (78.66, 86.25, 94.37, 88.66, 84.40, 92.8, 69.45, 84.94)),
    "static": ("Avg. GloVe embeddings", (77.25, 78.30, 91.17, 87.85, 80.18, 83.0, 72.87, 81.52)),
    "nli": ("SBERT-NLI-base", (83.64, 89.43, 94.39, 89.86, 88.96, 89.6, 76.00, 87.41)),
}

# Table 3, argument facet similarity: Pearson, Spearman.
ARGUMENTS = {
    ("bi-encoder", "10-fold"): ("SBERT-AFS-base", (76.57, 74.13)),
    ("bi-encoder", "cross-topic"): ("SBERT-AFS-base", (52.34, 50.65)),
    ("cross-encoder", "10-fold"): ("BERT-AFS-base", (77.20, 74.84)),
    ("cross-encoder", "cross-topic"): ("BERT-AFS-base", (58.49, 57.23)),
}

# Table 4, triplets of Wikipedia sections: accuracy.
TRIPLETS = {"before": ("Dor et al.", 74.0), "after": ("SBERT-WikiSec-base", 80.42)}

# Table 7, sentences a second on a V100: without smart batching and with it.
BATCHING = (1378.0, 2042.0)
