"""The service under load, on the loopback: `python serve_load.py [--seconds 60] [--clients 32]`.

Starts `sbert-retriever serve` over sentences of Python's own documentation and an FAQ made of some
of them, and has clients ask without a pause: seven of ten requests are searches, two are questions
to the FAQ, one embeds eight texts. Prints requests a second, the median and the 95th percentile of
each kind, how many were refused with 429, how many failed otherwise (expected: none), how many
callers shared a batch, and the process's memory at the first quarter and at the end. Queries are
drawn with the seed. With --budget-ms, a tenth of the searches have that budget.

The clients run in this process beside the service, on the same cores: both are measured together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import monotonic, perf_counter

import httpx
import numpy as np

from sbert_retriever import Passage, Retriever
from sbert_retriever.faq import Faq, FaqEntry
from sbert_retriever.tradeoff.machine import machine
from sbert_retriever.tradeoff.sentences import python_sentences

PASSAGES, ENTRIES = 5000, 200
MODEL = "all-MiniLM-L6-v2"


def build(folder: Path) -> list[str]:
    """A collection and an FAQ; the sentences that questions are made of."""
    sentences = python_sentences(PASSAGES)
    with Retriever.open(folder, model=MODEL) as retriever:
        retriever.index(Passage(f"p{n}", text) for n, text in enumerate(sentences))
    with Faq.open(folder, model=MODEL) as faq:
        faq.add(
            FaqEntry(id=f"e{n}", answer=text, phrasings=[" ".join(text.split()[:8])])
            for n, text in enumerate(sentences[:ENTRIES])
        )
    return sentences


def started(folder: Path, options: list[str]) -> tuple[subprocess.Popen[str], str]:
    """The service, and its address."""
    command = [sys.executable, "-m", "sbert_retriever", "serve", str(folder), "--port", "0"]
    log = (folder.parent / "log.jsonl").open("w", encoding="utf-8")
    process = subprocess.Popen([*command, *options], stderr=log, text=True)
    while True:
        for line in (folder.parent / "log.jsonl").read_text(encoding="utf-8").splitlines():
            if "serving at " in line:
                return process, line.split("serving at ")[1].strip()
        assert process.poll() is None, (folder.parent / "log.jsonl").read_text(encoding="utf-8")


async def ready(client: httpx.AsyncClient) -> None:
    while (await client.get("/readyz")).status_code != 200:
        await asyncio.sleep(0.05)


def request(
    rng: random.Random, sentences: list[str], budget_ms: float | None
) -> tuple[str, str, dict]:
    """A kind, a path and a body."""
    words = rng.choice(sentences).split()
    query = " ".join(rng.sample(words, min(len(words), 8)))
    drawn = rng.random()
    if drawn < 0.7:
        body: dict = {"query": query, "k": 10}
        if budget_ms is not None and drawn < 0.07:
            return f"search within {budget_ms:g} ms", "/search", {**body, "budget_ms": budget_ms}
        return "search", "/search", body
    if drawn < 0.9:
        return "faq", "/faq/ask", {"question": query}
    return "embed 8", "/v1/embeddings", {"input": rng.sample(sentences, 8)}


async def client_loop(client, number, arguments, sentences, until, taken, statuses) -> None:
    rng = random.Random(f"{arguments.seed}-{number}")
    while monotonic() < until:
        kind, path, body = request(rng, sentences, arguments.budget_ms)
        begun = perf_counter()
        try:
            answer = await client.post(path, json=body)
        except httpx.TransportError as error:
            statuses[type(error).__name__] += 1
            continue
        statuses[answer.status_code] += 1
        if answer.status_code == 200:
            taken.setdefault(kind, []).append((perf_counter() - begun) * 1e3)
        elif answer.status_code == 429:
            await asyncio.sleep(float(answer.headers["retry-after"]))


async def memory(client: httpx.AsyncClient) -> dict[str, float]:
    lines = (await client.get("/metrics")).text.splitlines()
    return {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    }


async def load(address: str, arguments, sentences: list[str]) -> None:
    limits = httpx.Limits(max_connections=arguments.clients + 2)
    async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
        await ready(client)
        taken: dict[str, list[float]] = {}
        statuses: Counter = Counter()
        begun = monotonic()
        until = begun + arguments.seconds
        running = [
            asyncio.create_task(
                client_loop(client, n, arguments, sentences, until, taken, statuses)
            )
            for n in range(arguments.clients)
        ]
        await asyncio.sleep(arguments.seconds / 4)
        early = await memory(client)
        await asyncio.gather(*running)
        late = await memory(client)
        report(arguments, taken, statuses, early, late, monotonic() - begun)


def report(arguments, taken, statuses, early, late, seconds: float) -> None:
    answered = sum(map(len, taken.values()))
    print(f"{machine()}; {arguments.clients} clients, {seconds:.0f} s, seed {arguments.seed}")
    print(f"answered {answered:,} ({answered / seconds:.0f} a second); statuses {dict(statuses)}")
    for kind, times in sorted(taken.items()):
        p50, p95, p99 = np.percentile(times, [50, 95, 99])
        print(f"{kind:<22} {len(times):>7,}  p50 {p50:6.1f} ms  p95 {p95:6.1f}  p99 {p99:6.1f}")
    shares = late["sbert_retriever_batch_shares_total"] / late["sbert_retriever_batches_total"]
    busy = late["process_cpu_seconds_total"] - early["process_cpu_seconds_total"]
    print(f"callers a batch: {shares:.2f}; processor: {busy / (0.75 * seconds):.2f} cores")
    name = "process_resident_memory_bytes"
    print(f"memory: {early[name] / 2**20:.0f} MiB early, {late[name] / 2**20:.0f} at the end")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--budget-ms", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("options", nargs="*", help="further options of serve, after --")
    arguments = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "location"
        sentences = build(folder)
        process, address = started(folder, arguments.options)
        try:
            asyncio.run(load(address, arguments, sentences))
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        lines = (folder.parent / "log.jsonl").read_text(encoding="utf-8").splitlines()
        levels = Counter(json.loads(line)["level"] for line in lines if line.startswith("{"))
        print(f"exit status {code}; lines in the log by level: {dict(levels)}")


if __name__ == "__main__":
    main()
