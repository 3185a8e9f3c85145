"""What an FAQ learns from those who use it: calibration, feedback, gaps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sbert_retriever.closing import Closing
from sbert_retriever.faq.calibration import Calibration, Thresholds
from sbert_retriever.faq.conversation import Conversation
from sbert_retriever.faq.entries import FaqEntry, Feedback, Gap, Labelled
from sbert_retriever.faq.keeping import Shelf
from sbert_retriever.faq.notebook import Notebook
from sbert_retriever.retriever import Retriever
from sbert_retriever.types.checks import expect

if TYPE_CHECKING:
    from sbert_retriever.faq.pairs import Pair, Second
    from sbert_retriever.faq.report import CalibrationReport


class Improving(Closing):
    """The part of `Faq` by which it gets better."""

    _retriever: Retriever
    _shelf: Shelf
    _conversation: Conversation
    _notebook: Notebook

    @property
    def calibration(self) -> Calibration | None:
        """What `calibrate` learned, where it holds for how the FAQ is opened.

        What another process learned counts some seconds after it was kept.
        """
        self._conversation.kept.follow()
        return self._conversation.judge.calibration

    @property
    def thresholds(self) -> Thresholds | None:
        """What holds where nothing was calibrated; None where the model was not measured."""
        return self._conversation.judge.thresholds

    def calibrate(
        self,
        labelled: Iterable[Labelled | tuple[str, str | None]] | None = None,
        *,
        target_precision: float = 0.95,
        out_of_scope_share: float | None = None,
        folds: int = 5,
        seed: int = 0,
        save: bool = True,
    ) -> CalibrationReport:
        """Learn from labelled questions when to answer, and how sure an answer is.

        Args:
            labelled: Questions as users ask them, each with the id of the entry that answers it, or
                None where none does. They should be no phrasings of the FAQ. None takes the
                feedback that was kept.
            target_precision: The share of answers that shall be right.
            out_of_scope_share: The share of questions that no entry answers, where the FAQ is used,
                from 0 to 1. None is that of the labelled ones.
            folds: Of the cross-validation.
            seed: Of the folds.
            save: Whether to keep the result with the collection and go by it from now on.

        Raises:
            InputError: There are too few questions, or all are in scope and answered, or none is;
                an entry is unknown; or no threshold reaches the target; or feedback is to be
                learned from, and there is no log.
        """
        from sbert_retriever.faq.learning import learned

        questions = self._notebook.feedback() if labelled is None else labelled
        report = learned(
            self._conversation,
            questions,
            target=target_precision,
            share=out_of_scope_share,
            folds=folds,
            seed=seed,
        )
        if save:
            self._conversation.kept.keep(report.calibration)
        return report

    async def acalibrate(
        self,
        labelled: Iterable[Labelled | tuple[str, str | None]] | None = None,
        *,
        target_precision: float = 0.95,
        out_of_scope_share: float | None = None,
        folds: int = 5,
        seed: int = 0,
        save: bool = True,
    ) -> CalibrationReport:
        """`calibrate` for an event loop."""
        return await asyncio.to_thread(
            self.calibrate,
            labelled,
            target_precision=target_precision,
            out_of_scope_share=out_of_scope_share,
            folds=folds,
            seed=seed,
            save=save,
        )

    def feedback(self, question: str, entry: str | FaqEntry, good: bool) -> Feedback:
        """Keep what a user said of an answer, as data for `calibrate` and for training.

        Args:
            question: As it was looked up, `FaqAnswer.question`: a follow-up with the one before it.
                It is written to `log_path` as it is.
            entry: The entry that was handed out, or its id.
            good: Whether it was the right one.

        Raises:
            InputError: There is no place to keep it: open the FAQ with log=FILE.
            StoreError: The file cannot be written.
            InputTypeError: One of them has the wrong type.
        """
        expect(question, str, "question")
        expect(good, bool, "good")
        entry_id = entry.id if isinstance(entry, FaqEntry) else entry
        expect(entry_id, str, "entry")
        return self._notebook.keep_feedback(question, entry_id, good=good)

    async def afeedback(self, question: str, entry: str | FaqEntry, good: bool) -> Feedback:
        """`feedback` for an event loop."""
        return await asyncio.to_thread(self.feedback, question, entry, good)

    def feedback_kept(self) -> list[Feedback]:
        """What users said, oldest first.

        Raises:
            InputError: There is no log: open the FAQ with log=FILE.
        """
        return self._notebook.feedback()

    def training_pairs(self, *, second: Second = "phrasing") -> list[Pair]:
        """Feedback as pairs to train on: (question, a text of the entry that answers it).

        Only what users called right is among them; of several words on one question and entry the
        last counts. `TrainData(kind="pairs", rows=...)` takes them as "first" and "second".

        Args:
            second: "phrasing" for the entry's first phrasing, or "answer".

        Raises:
            InputError: `second` is neither; or there is no log.
        """
        from sbert_retriever.faq.pairs import pairs_of

        return pairs_of(self._notebook.feedback(), self._shelf.all(), second=second)

    def gaps(
        self,
        questions: Iterable[str] | None = None,
        *,
        threshold: float | None = None,
        min_size: int = 2,
    ) -> list[Gap]:
        """What people ask in vain, the most asked first: which entries to write next.

        Args:
            questions: Unanswered questions; None takes those that were logged.
            threshold: The least cosine to the question in the middle of a gap; None is 0.6.
            min_size: The least number of questions of a gap.

        Raises:
            InputError: The threshold is no cosine, or min_size is below 1; or no questions are
                given, and there is no log.
        """
        from sbert_retriever.faq.gaps import found_gaps

        asked = self._notebook.unanswered() if questions is None else list(questions)
        return found_gaps(
            self._conversation,
            self._retriever.encoder,
            asked,
            threshold=threshold,
            min_size=min_size,
        )

    async def agaps(
        self,
        questions: Iterable[str] | None = None,
        *,
        threshold: float | None = None,
        min_size: int = 2,
    ) -> list[Gap]:
        """`gaps` for an event loop."""
        return await asyncio.to_thread(self.gaps, questions, threshold=threshold, min_size=min_size)

    @property
    def log_path(self) -> Path | None:
        """The file of feedback and unanswered questions; None where there is no place for one."""
        return self._notebook.path

    def clear_log(self) -> None:
        """Delete the feedback and the unanswered questions that were kept."""
        self._notebook.clear()
