"""The seven sets of semantic textual similarity that the paper's table 1 has.

| set | pairs | gold |
|---|---|---|
| `sts12` ... `sts16` | several files each, taken together as one | 0 to 5 |
| `stsb` | the test split of STSbenchmark, in a language | 0 to 5 |
| `sick` | the test split of SICK-R | 1 to 5 |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from sbert_retriever.counting import counted
from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.lines import numbered_lines, place_of
from sbert_retriever.evaluation.pairs import (
    LabelledPairs,
    ScoredPairs,
    comma_fields,
    gold_score,
    labelled,
    merged,
    scored,
    tab_fields,
    tab_records,
)

YEARS = ("sts12", "sts13", "sts14", "sts15", "sts16")
STS_TASKS = (*YEARS, "stsb", "sick")
_SICK = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
_SICK_COLUMNS = ("sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")


def folder_of(data: Path, *names: str, holding: str) -> Path:
    """The folder of a data set: a subfolder of `data`, or `data` itself.

    Args:
        data: As the user named it.
        names: What the subfolder may be called.
        holding: A pattern of the files that it must have.

    Raises:
        ReadError: No such file is in any of them.
    """
    for place in (*(data / name for name in names), data):
        if any(place.glob(holding)):
            return place
    raise ReadError(
        f"{data} has no {holding}, nor has a folder {' or '.join(map(repr, names))} in it: give "
        "--data the folder that holds the data sets"
    )


def read_sts(data: Path, task: str, *, language: str = "en", split: str = "test") -> ScoredPairs:
    """The pairs of one of the seven sets.

    Args:
        data: The folder of the data sets, or that of the set itself.
        task: A name of `STS_TASKS`.
        language: Of `stsb`; the others are English.
        split: Of `stsb` and `sick`: "train", "dev" or "test"; the others have no splits.

    Raises:
        InputError: There is no such set.
        ReadError: A file is missing or a line of it does not fit.
    """
    if task not in STS_TASKS:
        raise InputError(f"no STS set {task!r}, expected one of {', '.join(STS_TASKS)}")
    if task == "stsb":
        return read_stsb(data, split, language=language)
    return read_sick(data, split) if task == "sick" else read_year(data, task)


def read_stsb(data: Path, split: str, *, language: str = "en") -> ScoredPairs:
    """A split of STSbenchmark: CSV without a header, sentence, sentence, score 0 to 5.

    Raises:
        ReadError: The file is missing, with the languages that are there, or a line does not fit.
    """
    folder = folder_of(data, "stsb", holding="stsb-*.csv")
    path = folder / f"stsb-{language}-{split}.csv"
    if not path.is_file():
        there = sorted({file.stem.split("-")[1] for file in folder.glob(f"stsb-*-{split}.csv")})
        raise ReadError(
            f"{path} is not there; languages with that split: {', '.join(there) or 'none'}"
        )
    rows = (
        (left, right, gold_score(gold, place_of(path, number), low=0, high=5))
        for number, (left, right, gold) in comma_fields(path, 3)
    )
    return scored("stsb" if language == "en" else f"stsb-{language}", rows, source=path)


def read_sick(data: Path, split: str) -> ScoredPairs:
    """A split of SICK with how related the sentences are, 1 to 5.

    Raises:
        ReadError: The file is missing or a line of it does not fit.
    """
    path = _sick_file(data, split)
    rows = (
        (
            row["sentence_A"],
            row["sentence_B"],
            gold_score(row["relatedness_score"], place_of(path, number), low=1, high=5),
        )
        for number, row in tab_records(path, _SICK_COLUMNS)
    )
    return scored("sick", rows, source=path)


def read_sick_labels(data: Path, split: str) -> LabelledPairs:
    """A split of SICK with its entailment labels, in lower case.

    Raises:
        ReadError: The file is missing or a line of it does not fit.
    """
    path = _sick_file(data, split)
    rows = (
        (row["sentence_A"], row["sentence_B"], row["entailment_judgment"].lower())
        for _, row in tab_records(path, _SICK_COLUMNS)
    )
    return labelled("sick", rows, source=path)


def _sick_file(data: Path, split: str) -> Path:
    if split not in _SICK:
        raise InputError(f"no split {split!r} of SICK, expected one of {', '.join(_SICK)}")
    return folder_of(data, "sick", holding="SICK_*.txt") / _SICK[split]


def read_year(data: Path, task: str) -> ScoredPairs:
    """All files of a year together, as SentEval's "all" and the paper take them.

    Raises:
        ReadError: None is there, or a line does not fit.
    """
    year = f"20{task.removeprefix('sts')}"
    folder = folder_of(data, "sts12-16", holding=f"{year}.*")
    return merged(task, read_year_parts(folder, year))


def read_year_parts(folder: Path, year: str) -> list[ScoredPairs]:
    """Each file of a year by itself.

    Args:
        folder: With `<year>.<name>.tsv`, or `<year>.<name>.input.txt` beside `.gs.txt`.
        year: Such as "2012".

    Raises:
        ReadError: None is there, or a line does not fit.
    """
    files = sorted([*folder.glob(f"{year}.*.tsv"), *folder.glob(f"{year}.*.input.txt")])
    if not files:
        raise ReadError(f"{folder} has no {year}.*.tsv")
    return [scored(path.name.split(".")[1], _rows_of(path)(path), source=path) for path in files]


def _rows_of(path: Path) -> Callable[[Path], Iterator[tuple[str, str, float]]]:
    return _rows if path.suffix == ".tsv" else _rows_in_two


def _rows(path: Path) -> Iterator[tuple[str, str, float]]:
    """Score, sentence, sentence; an empty score is a pair that nobody scored."""
    for number, (gold, left, right) in tab_fields(path, 3):
        if gold:
            yield left, right, gold_score(gold, place_of(path, number), low=0, high=5)


def _rows_in_two(path: Path) -> Iterator[tuple[str, str, float]]:
    """Sentences in one file, scores line by line in another; an empty line is no score."""
    beside = path.with_name(path.name.replace(".input.txt", ".gs.txt"))
    scores = dict(numbered_lines(beside))
    pairs = dict(tab_fields(path, 2))
    raw = beside.read_bytes()
    lines = raw.count(b"\n") + (not raw.endswith(b"\n"))
    if not scores.keys() <= pairs.keys() or lines < max(pairs, default=0):
        raise ReadError(
            f"{beside} has {counted(lines, 'line')} with {counted(len(scores), 'score')}, and "
            f"{path} {counted(len(pairs), 'pair')}: expected a line for each"
        )
    for number, (left, right) in pairs.items():
        if number in scores:
            where = place_of(beside, number)
            yield left, right, gold_score(scores[number], where, low=0, high=5)
