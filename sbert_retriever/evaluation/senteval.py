"""The sentence classification sets of SentEval (Conneau and Kiela 2018), as the paper's table 5.

| set | what is told apart | how it is measured |
|---|---|---|
| MR, CR, SUBJ, MPQA | feeling; fact or opinion | 10 folds |
| SST2 | feeling | train, dev and test as given |
| TREC | six kinds of question | train and test as given |
| MRPC | paraphrase or not, of two sentences | train and test as given |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.lines import numbered_lines, place_of
from sbert_retriever.evaluation.pairs import tab_records
from sbert_retriever.evaluation.sts_sets import folder_of

FOLDED = {"MR": "rt-polarity.all", "CR": "custrev.all", "SUBJ": "subj.all", "MPQA": "mpqa.all"}
SPLIT = {
    "SST2": ("stsa.binary.train", "stsa.binary.dev", "stsa.binary.test"),
    "TREC": ("TREC.train.all", None, "TREC.test.all"),
}
_MRPC = ("msr-para-train.tsv", "msr-para-val.tsv", "msr-para-test.tsv")
_MRPC_COLUMNS = ("Quality", "#1 String", "#2 String")
TRANSFER_TASKS = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC")


@dataclass(frozen=True)
class Examples:
    """Texts, or pairs of texts, with a class each.

    Args:
        texts: One an example, the first of the two where they are pairs.
        labels: One an example.
        seconds: The other texts of pairs; empty where there are none.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    seconds: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True)
class TransferSet:
    """A classification set.

    Args:
        name: Of `TRANSFER_TASKS`.
        train: All examples of a set without a split.
        dev: To choose the regularisation by; None where `train` is cut for that.
        test: None where folds of `train` are.
    """

    name: str
    train: Examples
    dev: Examples | None = field(default=None)
    test: Examples | None = field(default=None)

    @property
    def files(self) -> tuple[Examples, ...]:
        """Those that are there: train, dev, test."""
        return tuple(part for part in (self.train, self.dev, self.test) if part is not None)


def read_transfer(data: Path, name: str) -> TransferSet:
    """One of the sets.

    Args:
        data: The folder of the data sets, or that of the set itself.
        name: Of `TRANSFER_TASKS`.

    Raises:
        InputError: There is no such set.
        ReadError: A file is missing, a line does not fit, or there is one class only.
    """
    if name not in TRANSFER_TASKS:
        raise InputError(f"no transfer set {name!r}, expected one of {', '.join(TRANSFER_TASKS)}")
    if name == "MRPC":
        return _read_mrpc(data)
    if name in FOLDED:
        folder = folder_of(data, "senteval", holding=FOLDED[name])
        return TransferSet(name=name, train=read_classes(folder / FOLDED[name]))
    train, dev, test = SPLIT[name]
    folder = folder_of(data, "senteval", holding=train)
    return TransferSet(
        name=name,
        train=read_classes(folder / train),
        dev=None if dev is None else read_classes(folder / dev),
        test=read_classes(folder / test),
    )


def read_classes(path: Path) -> Examples:
    r"""Lines of a class, a space and a text; "\x85" is a character of a text, not a line's end.

    Some published files have a class without a text here and there, which is passed over.

    Raises:
        ReadError: A line has no class, or there are fewer than two classes.
    """
    texts, labels = [], []
    for number, line in numbered_lines(path, or_latin=True):
        label, _, text = line.partition(" ")
        if not label.isdigit():
            raise ReadError(
                f"{place_of(path, number)}: {label[:40]!r}, expected the number of a class, a "
                "space and a text"
            )
        if text.strip(" "):
            texts.append(text.strip(" "))
            labels.append(label)
    _check_classes(path, labels)
    return Examples(tuple(texts), tuple(labels))


def _check_classes(path: Path, labels: list[str]) -> None:
    if len(set(labels)) < 2:
        raise ReadError(
            f"{path} has {len(labels)} examples of {len(set(labels))} classes, expected 2 classes "
            "or more"
        )


def _read_mrpc(data: Path) -> TransferSet:
    """Train and validation together, as SentEval has them; the regularisation is cut out of it."""
    folder = folder_of(data, "mrpc", holding=_MRPC[0])
    train, dev, test = (read_mrpc(folder / name) for name in _MRPC)
    both = Examples(train.texts + dev.texts, train.labels + dev.labels, train.seconds + dev.seconds)
    return TransferSet(name="MRPC", train=both, test=test)


def read_mrpc(path: Path) -> Examples:
    """A file of Microsoft's paraphrase corpus.

    Raises:
        ReadError: A column is missing or a line does not fit.
    """
    rows = list(tab_records(path, _MRPC_COLUMNS))
    for number, row in rows:
        if row["Quality"] not in {"0", "1"}:
            raise ReadError(
                f"{place_of(path, number)}: the quality is {row['Quality']!r}, expected 0 or 1"
            )
    labels = [row["Quality"] for _, row in rows]
    _check_classes(path, labels)
    return Examples(
        tuple(row["#1 String"] for _, row in rows),
        tuple(labels),
        tuple(row["#2 String"] for _, row in rows),
    )
