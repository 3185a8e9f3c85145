"""`sbert-retriever serve` and `sbert-retriever mcp`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.faq_asking import Log
from sbert_retriever.cli.output import say
from sbert_retriever.errors import InputError, MissingExtraError

FaqName = Annotated[
    str, typer.Option("--faq", metavar="NAME", help="Which collection there is the FAQ.")
]
FaqRerank = Annotated[
    bool,
    typer.Option("--faq-rerank", help="Let a cross-encoder look at the FAQ's best entries again."),
]
LogUnanswered = Annotated[
    bool,
    typer.Option(
        "--log-unanswered", help="Keep questions that the FAQ cannot answer, for `faq gaps`."
    ),
]
Reranker = Annotated[
    str | None,
    typer.Option(
        "--reranker",
        metavar="MODEL",
        help="The cross-encoder. Without it, the one of the collection's profile, or of the "
        "package.",
        show_default=False,
    ),
]


def serve(
    location: options.Location,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", help="0 takes a free one.")] = 8080,
    api_key_file: Annotated[
        str | None,
        typer.Option(
            "--api-key-file",
            metavar="FILE",
            help="Keys that are let in, one a line; SBERT_RETRIEVER_API_KEYS has them too, "
            "separated by commas. Without any, all who reach the address are.",
            show_default=False,
        ),
    ] = None,
    collection: options.Collection = "default",
    faq: FaqName = "faq",
    tenant: options.Tenant = None,
    model: options.Model = None,
    reranker: Reranker = None,
    faq_rerank: FaqRerank = False,
    log_unanswered: LogUnanswered = False,
    log: Log = None,
    log_texts: Annotated[
        bool, typer.Option("--log-texts", help="Write questions into the log.")
    ] = False,
    threads: Annotated[
        int, typer.Option("--threads", metavar="N", help="Requests worked on at a time.")
    ] = 16,
    queue: Annotated[
        int, typer.Option("--queue", metavar="N", help="Requests that may wait; then 429.")
    ] = 64,
    timeout_s: Annotated[
        float, typer.Option("--timeout-s", metavar="S", help="Seconds for a request; then 504.")
    ] = 30.0,
    max_body_mb: Annotated[
        float, typer.Option("--max-body-mb", metavar="MB", help="Size of a request; then 413.")
    ] = 8.0,
    max_batch: Annotated[
        int, typer.Option("--max-batch", metavar="N", help="Texts in a request.")
    ] = 2048,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="URL",
            help="Let pages of this origin ask from a browser (CORS). Several may be given.",
            show_default=False,
        ),
    ] = None,
    paper_efficiency: Annotated[
        str | None,
        typer.Option(
            "--paper-efficiency",
            metavar="FILE",
            help="What `paper-efficiency --json` printed, for the page. Without it, the page "
            "measures on 500 sentences.",
            show_default=False,
        ),
    ] = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    qdrant_api_key: Annotated[
        str | None,
        typer.Option(
            "--qdrant-api-key",
            metavar="KEY",
            help="For a LOCATION that is a URL. Better set QDRANT_API_KEY.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve a collection and its FAQ over HTTP, with a page to try them at /."""
    _need("fastapi", "serve", "serve over HTTP")
    _need("uvicorn", "serve", "serve over HTTP")
    from sbert_retriever.index.steps import RetryPolicy
    from sbert_retriever.serve import ServeSettings, open_service
    from sbert_retriever.serve import serve as run
    from sbert_retriever.serve.keys import read_keys

    settings = ServeSettings(
        host=host,
        port=port,
        keys=read_keys(api_key_file),
        threads=threads,
        queue=queue,
        timeout_s=timeout_s,
        max_body=_as_bytes(max_body_mb),
        max_batch=max_batch,
        origins=tuple(allow_origin or ()),
        log_texts=log_texts,
    )
    report = _report(paper_efficiency)
    if settings.open_to_all:
        say(f"warning: everybody who reaches {host} may ask and write: give --api-key-file")
    service = open_service(
        location,
        collection_name=collection,
        faq_name=faq,
        tenant=tenant,
        model=model,
        reranker=reranker,
        faq_rerank=faq_rerank,
        log_unanswered=log_unanswered,
        log=log,
        device=device,
        dtype=dtype,
        api_key=qdrant_api_key,
        retry=RetryPolicy(deadline_s=settings.patience_s),
    )
    service.paper.report = report
    try:
        run(service, settings, on_listening=lambda address: say(f"serving at {address}"))
    finally:
        service.close()


def mcp(
    location: options.Location,
    collection: options.Collection = "default",
    faq: FaqName = "faq",
    tenant: options.Tenant = None,
    model: options.Model = None,
    reranker: Reranker = None,
    faq_rerank: FaqRerank = False,
    log_unanswered: LogUnanswered = False,
    log: Log = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
) -> None:
    """Offer search and FAQ lookup as tools to an assistant, over stdio (Model Context Protocol)."""
    # Its second version: many programs bring the first, which has no such module.
    _need("mcp 2", "mcp", "offer tools over stdio", module="mcp.server.mcpserver")
    from sbert_retriever.serve import open_service
    from sbert_retriever.serve.tools import serve_tools

    service = open_service(
        location,
        collection_name=collection,
        faq_name=faq,
        tenant=tenant,
        model=model,
        reranker=reranker,
        faq_rerank=faq_rerank,
        log_unanswered=log_unanswered,
        log=log,
        device=device,
        dtype=dtype,
        api_key=api_key,
    )
    try:
        serve_tools(service)
    finally:
        service.close()


def _need(package: str, extra: str, purpose: str, *, module: str | None = None) -> None:
    """Refuse to go on without a package, or without a module of it.

    Raises:
        MissingExtraError: It is not there.
    """
    from importlib.util import find_spec

    try:
        found = find_spec(module or package)
    except ModuleNotFoundError:  # not even what the module would be in
        found = None
    if found is None:
        raise MissingExtraError(package, extra=extra, purpose=purpose)


def _as_bytes(megabytes: float) -> int:
    if not 1 <= megabytes * 2**20 < math.inf:
        raise InputError(f"--max-body-mb is {megabytes}, expected megabytes above 0, such as 8")
    return int(megabytes * 2**20)


def _report(file: str | None) -> dict[str, Any] | None:
    """What `paper-efficiency --json` printed.

    Raises:
        InputError: The file holds something else.
    """
    if file is None:
        return None
    try:
        report = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read as JSON: {error}") from error
    if not isinstance(report, dict) or "cross_encoder_s" not in report:
        raise InputError(f"{file} is not what `sbert-retriever paper-efficiency --json` prints")
    return report
