"""Keep a collection in line with a source that changes: only what changed is encoded."""

from __future__ import annotations

import tempfile
from pathlib import Path

from sbert_retriever import Failure, IndexReport, Passage, Retriever

MONDAY = {
    "vpn": "To work from home, start the VPN client and sign in with your badge number.",
    "wifi": "Guests use the network Visitors; the password hangs in the lobby.",
    "parking": "Level two is free for bicycles, level three for cars.",
}
TUESDAY = {
    "vpn": MONDAY["vpn"],  # as it was
    "wifi": "Guests use the network Visitors; ask the front desk for the password.",  # changed
    "lunch": "The canteen is open from half past eleven until two.",  # new; parking is gone
}


def passages(texts: dict[str, str], *, author: str) -> list[Passage]:
    return [
        Passage(f"faq/{name}", text, {"author": author}, source="faq")
        for name, text in texts.items()
    ]


def show(title: str, report: IndexReport) -> None:
    print(f"{title:<38} {report}; {report.encoded} encoded")


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Retriever.open(Path(folder, "index"), model="all-MiniLM-L6-v2") as retriever,
    ):
        show("Monday", retriever.index(passages(MONDAY, author="kim")))
        show("Monday, again", retriever.index(passages(MONDAY, author="kim")))

        tuesday = passages(TUESDAY, author="kim")
        show("Tuesday, what would be done", retriever.index(tuesday, prune=True, dry_run=True))
        # prune deletes what is gone, but only within sources seen in this call: here "faq".
        show("Tuesday", retriever.index(tuesday, prune=True))
        show("Tuesday, another author", retriever.index(passages(TUESDAY, author="lee")))

        bad = [Passage("faq/broken", "A number that JSON cannot carry.", {"size": float("nan")})]
        report = retriever.index([*bad, *tuesday])
        show("one that cannot go in", report)
        print_failures(report.failures)
        print(f"\n{retriever.count()} passages:", ", ".join(sorted(ids(retriever))))


def print_failures(failures: tuple[Failure, ...]) -> None:
    for failure in failures:
        print(f"    {failure.id}: {failure.reason}")


def ids(retriever: Retriever) -> list[str]:
    page, _ = retriever.scroll(limit=100)
    return [passage.id for passage in page]


if __name__ == "__main__":
    main()
