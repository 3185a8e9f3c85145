"""`sbert-retriever doctor`."""

from __future__ import annotations

from dataclasses import asdict

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.output import one_line, put, put_json

_MARKS = {"ok": "ok", "warning": "WARNING", "problem": "PROBLEM"}


def doctor(
    location: options.Location,
    model: options.Model = None,
    collection: options.Collection = "default",
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Look a collection over, from its files to a timed search; exit code 1 if it has a problem."""
    from sbert_retriever.doctor import examine

    checks = examine(
        location,
        model=model,
        collection_name=collection,
        device=device,
        dtype=dtype,
        api_key=api_key,
    )
    healthy = all(check.status != "problem" for check in checks)
    if json:
        put_json({"healthy": healthy, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            put(f"{_MARKS[check.status]:<8} {check.name}: {one_line(check.finding)}")
            if check.way_out:
                put(f"{'':<8} -> {one_line(check.way_out)}")
    if not healthy:
        raise typer.Exit(1)
