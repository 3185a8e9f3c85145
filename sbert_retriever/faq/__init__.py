"""An FAQ for chatbots: a question gets one answer, a short list to choose from, or "don't know"."""

from sbert_retriever.faq.book import Faq
from sbert_retriever.faq.calibration import Calibration, Thresholds
from sbert_retriever.faq.entries import (
    FaqAnswer,
    FaqCandidate,
    FaqEntry,
    Feedback,
    Gap,
    Labelled,
)

__all__ = [
    "Faq",
    "FaqEntry",
    "FaqAnswer",
    "FaqCandidate",
    "Thresholds",
    "Calibration",
    "Labelled",
    "Feedback",
    "Gap",
]
