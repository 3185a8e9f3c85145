"""Windows through workers, and the sum of what they answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ray.data import ActorPoolStrategy, Dataset
from ray.data.exceptions import SystemException
from ray.exceptions import RayError

from sbert_ray._answers import ANSWER, Tally
from sbert_ray.workers import Pool
from sbert_retriever.errors import InterruptedRunError, TruncationWarning
from sbert_retriever.types import IndexReport

OnProgress = Callable[[IndexReport], None]


def run(
    windows: Dataset,
    worker: type,
    arguments: dict[str, Any],
    *,
    pool: Pool,
    on_progress: OnProgress | None,
) -> IndexReport:
    """Send every window to a worker.

    Args:
        windows: One a row.
        worker: Made once in each actor.
        arguments: What it is made with.
        pool: How many actors, and what each has.
        on_progress: Called with the report so far, after each window.

    Raises:
        SbertError: What a worker raised, of its own class.
        InterruptedRunError: Workers died, more often than Ray puts up with.
    """
    answered = windows.map_batches(
        worker,
        fn_constructor_kwargs=arguments,
        compute=ActorPoolStrategy(size=pool.count),
        num_cpus=pool.cpus,
        num_gpus=pool.gpus,
        batch_size=1,
        batch_format="numpy",
    )
    tally = Tally()
    try:
        for row in answered.iter_rows():
            tally.add(row[ANSWER])
            if on_progress is not None:
                on_progress(tally.report())
    except (RayError, SystemException) as error:
        raise InterruptedRunError(
            f"the run was stopped by a failure in a worker ({_cause(error)}). What was written is "
            "kept: run it again to go on"
        ) from error
    return tally.report()


def warn_of_truncation(report: IndexReport) -> None:
    """Say once what was cut."""
    if report.truncated:
        warnings.warn(
            f"{report.truncated} of {report.encoded} encoded texts are longer than the model reads "
            f"(the longest: {report.longest} tokens); the rest of each is not searched: split them "
            "first",
            TruncationWarning,
            stacklevel=3,
        )


def _cause(error: BaseException) -> str:
    """The innermost reason, in one line."""
    cause: BaseException = error
    while (inner := getattr(cause, "cause", None) or cause.__cause__) is not None:
        cause = inner
    line = str(cause).strip().splitlines()[-1:] or [""]
    return f"{type(cause).__name__}: {line[0][:300]}"
