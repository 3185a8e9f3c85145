"""A progress bar on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(label: str, *, total: int | None, shown: bool) -> Iterator[Callable[[int], None]]:
    """Gives a function that adds a number of finished texts to the bar.

    Args:
        label: What stands before the bar.
        total: How many there will be; None where that is unknown.
        shown: False shows nothing.
    """
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(label, total=total)
        yield lambda count: progress.advance(task, count)
