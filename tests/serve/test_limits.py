"""Lines, keys, counters and logs, without a process."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import uvicorn

from sbert_retriever import Faq, FaqEntry, Passage, Retriever
from sbert_retriever.errors import (
    ContractError,
    InputError,
    InputTypeError,
    ModelFormatError,
    ReadError,
    StoreUnavailableError,
)
from sbert_retriever.index.edge import shard
from sbert_retriever.rerank import Reranker
from sbert_retriever.serve import ServeSettings, Service, create_app, open_service, paper
from sbert_retriever.serve.calls import Calls
from sbert_retriever.serve.gate import Gate
from sbert_retriever.serve.keys import Keys, read_keys
from sbert_retriever.serve.listening import HeadTimedProtocol
from sbert_retriever.serve.logs import LOGGER, log, logging_to
from sbert_retriever.serve.metrics import Metrics
from sbert_retriever.serve.models import SharedModels, Wanted
from sbert_retriever.serve.paper import Turns
from sbert_retriever.serve.run import _config, _listener, _Server
from sbert_retriever.serve.scorer import SharedScorer
from sbert_retriever.serve.workers import BusyError, OverdueError, Workers
from sbert_retriever.testing import HashEncoder
from sbert_retriever.types import Profile

KEY = "0123456789abcdef"
PATIENCE_S = 60.0


class OverlapScorer:
    """Says how long pairs are."""

    score_kind = "logit"

    def prepare(self, pairs: Any, *, max_length: int | None = None) -> Any:
        lengths = np.array([len(query) + len(text) for query, text in pairs])
        return SimpleNamespace(
            lengths=lengths,
            truncated=np.zeros(len(lengths), dtype=bool),
            score=lambda indexes: lengths[indexes].astype(np.float32),
        )


# Workers --------------------------------------------------------------------------------


async def test_a_full_line_sends_the_next_one_away_until_there_is_room() -> None:
    """Two threads and a place to wait: the fourth is told when to come back."""
    gate, workers = threading.Event(), Workers(threads=2, queue=1, timeout_s=60)
    running = [asyncio.create_task(workers.run(lambda _: gate.wait(60))) for _ in range(3)]
    await asyncio.sleep(0)
    assert (workers.under_way, workers.waiting) == (3, 1)
    with pytest.raises(BusyError, match="come back in") as caught:
        await workers.run(lambda _: True)
    assert caught.value.retry_after_s >= 1
    gate.set()
    assert await asyncio.gather(*running) == [True, True, True]
    await asyncio.sleep(0)
    assert (workers.under_way, workers.refused) == (0, 1)
    assert await workers.run(lambda _: "room") == "room"
    workers.close()


async def test_what_takes_too_long_is_given_up_and_keeps_its_place_until_it_ends() -> None:
    gate, workers = threading.Event(), Workers(threads=1, queue=0, timeout_s=0.05)
    with pytest.raises(OverdueError):
        await workers.run(lambda _: gate.wait(60))
    assert workers.under_way == 1
    with pytest.raises(BusyError):
        await workers.run(lambda _: True)
    gate.set()
    while workers.under_way:
        await asyncio.sleep(0.001)
    workers.close()


async def test_those_that_wait_for_their_turn_leave_the_threads_to_others() -> None:
    """Writers that waited for each other in threads left none for a search."""
    gate, turn = threading.Event(), asyncio.Lock()
    workers = Workers(threads=2, queue=2, timeout_s=60)
    order: list[int] = []

    def write(n: int) -> bool:
        order.append(n)
        return gate.wait(60)

    writers = [
        asyncio.create_task(workers.run(lambda _, n=n: write(n), turn=turn)) for n in range(3)
    ]
    await asyncio.sleep(0)
    assert await workers.run(lambda _: "found") == "found"
    assert (workers.under_way, workers.waiting) == (3, 2)
    waits = asyncio.create_task(workers.run(lambda _: gate.wait(60)))
    await asyncio.sleep(0)
    with pytest.raises(BusyError):  # they count all the same
        await workers.run(lambda _: True, turn=turn)
    gate.set()
    assert await asyncio.gather(*writers, waits) == [True] * 4
    assert order == [0, 1, 2]
    assert (workers.under_way, workers.waiting, turn.locked()) == (0, 0, False)
    workers.close()


async def test_an_error_comes_back_as_it_was_raised() -> None:
    workers = Workers(threads=1, queue=0, timeout_s=60)

    def failing(_: float) -> None:
        raise InputError("wrong")

    with pytest.raises(InputError, match="wrong"):
        await workers.run(failing)
    workers.close()


# Gate -----------------------------------------------------------------------------------


async def asked(
    gate: Gate, *, method: str = "POST", path: str = "/search", hold: asyncio.Event | None = None
) -> tuple[int, int]:
    """Send 100 bytes, the last of them when `hold` is set; the status, and the bytes read."""
    left, status, read = [b"x" * 50, b"x" * 50], 0, 0

    async def receive() -> dict:
        nonlocal read
        if hold is not None and len(left) == 1:
            await hold.wait()
        part = left.pop(0)
        read += len(part)
        return {"type": "http.request", "body": part, "more_body": bool(left)}

    async def send(message: dict) -> None:
        nonlocal status
        status = message.get("status", status)

    headers = {"host": "localhost", "content-type": "application/json", "content-length": "100"}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await gate({"type": "http", "method": method, "path": path, "headers": pairs}, receive, send)
    return status, read


async def application(scope: dict, receive, send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def test_bodies_that_are_still_arriving_are_counted() -> None:
    """Senders that stopped half-way held as much memory as they liked."""
    gate = Gate(application, settings=ServeSettings(max_body=100), metrics=Metrics())
    hold = asyncio.Event()
    stopped = [asyncio.create_task(asked(gate, hold=hold)) for _ in range(31)]
    await asyncio.sleep(0)
    # Sixteen whole bodies may be held; the halves of 31 leave room for half of one.
    assert await asked(gate) == (429, 0)
    hold.set()
    assert await asyncio.gather(*stopped) == [(200, 100)] * 31
    assert await asked(gate) == (200, 100)


async def test_a_body_that_takes_too_long_is_counted_no_more() -> None:
    settings = ServeSettings(max_body=100, timeout_s=0.01)
    gate = Gate(application, settings=settings, metrics=Metrics())
    for _ in range(40):
        assert await asked(gate, hold=asyncio.Event()) == (408, 50)
    assert await asked(gate) == (200, 100)


async def test_of_who_has_no_key_no_body_is_read() -> None:
    """Open paths, and methods that carry none, took bodies from everybody."""
    gate = Gate(application, settings=ServeSettings(keys=Keys([KEY])), metrics=Metrics())
    assert await asked(gate, method="GET", path="/healthz") == (200, 0)
    assert await asked(gate, method="OPTIONS") == (200, 0)
    assert await asked(gate, path="/healthz") == (401, 0)


# Keys -----------------------------------------------------------------------------------


def test_keys_are_read_from_a_file_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# the first\n\n  {KEY}  \n")
    keys = read_keys(file, {"SBERT_RETRIEVER_API_KEYS": "fedcba9876543210, another-long-key-1"})
    assert len(keys) == 3
    for key in (KEY, "fedcba9876543210", "another-long-key-1"):
        assert keys.accept(key)
    for key in (None, "", KEY[:-1], KEY + "0", "# the first", KEY.upper(), "ключ" * 8):
        assert not keys.accept(key)
    assert not read_keys(None, {})


@pytest.mark.parametrize("begins", ["", "# ours\r\n"])
def test_a_byte_order_mark_is_no_part_of_a_key(tmp_path: Path, begins: str) -> None:
    """Windows' editor writes one: the first key, or a remark, was called too short."""
    (tmp_path / "keys").write_bytes(f"\ufeff{begins}{KEY}\r\n".encode())
    keys = read_keys(tmp_path / "keys", {})
    assert (len(keys), keys.accept(KEY)) == (1, True)


def test_keys_are_shown_nowhere() -> None:
    keys = Keys([KEY])
    assert KEY not in f"{keys!r} {keys} {vars(keys)} {ServeSettings(keys=keys)!r}"


@pytest.mark.parametrize(
    "key", ["too-brief", "ключ-который-достаточно-длинный", "a\x07 bell in the key"]
)
def test_a_key_that_is_too_weak_is_refused_by_its_place(key: str) -> None:
    with pytest.raises(InputError, match="API key 2 is too short") as caught:
        Keys([KEY, key])
    assert key not in str(caught.value)


def test_a_file_of_keys_that_has_none_is_refused(tmp_path: Path) -> None:
    """An empty file would open the service to all."""
    (tmp_path / "empty").write_text("# none yet\n")
    with pytest.raises(InputError, match="has no API key"):
        read_keys(tmp_path / "empty", {})
    with pytest.raises(ReadError, match="No such file"):
        read_keys(tmp_path / "absent", {})
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReadError, match="not UTF-8"):
        read_keys(tmp_path / "binary", {})


@pytest.mark.parametrize("value", ["", " ", ",", " , ,"])
def test_a_variable_that_was_not_filled_in_is_refused(value: str) -> None:
    """A secret that is missing where the service is deployed opened it to all."""
    with pytest.raises(InputError, match="SBERT_RETRIEVER_API_KEYS is set and has no API key"):
        read_keys(None, {"SBERT_RETRIEVER_API_KEYS": value})


# Service --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "says", "passing"),
    [
        (RuntimeError("CUDA error: out of memory"), "RuntimeError, see the log", False),
        (InputError("/a/place is no model"), "a setting of the service cannot be used", False),
        (ModelFormatError("/a/place is no model"), "a model of the service cannot be", False),
        (
            StoreUnavailableError("no answer of /a/place"),
            "server behind the service does not",
            True,
        ),
    ],
)
def test_whatever_keeps_models_from_loading_is_told(
    monkeypatch: pytest.MonkeyPatch, error: Exception, says: str, passing: bool
) -> None:
    """Errors of libraries were swallowed, and the service said for ever that it was starting.

    Its own named folders and addresses to whoever asked.
    """

    def failing() -> None:
        raise error

    service = Service(SharedModels(HashEncoder()))
    monkeypatch.setattr(service.models.encoder, "warm_up", failing)
    stream = io.StringIO()
    with logging_to(stream, texts=False):
        assert service.warm_up() is passing
    service.close()
    assert service.ready is False
    assert says in str(service.failure)
    assert "/a/place" not in str(service.failure)
    line = json.loads(stream.getvalue())
    assert (line["event"], line["error"]["type"]) == ("not ready", type(error).__name__)
    assert line["message"] == str(error)


def test_a_service_that_does_not_open_holds_no_folder(tmp_path: Path) -> None:
    """The collection stayed open where the FAQ was none, and other processes were kept out."""
    with Retriever.open(tmp_path, model=HashEncoder()) as retriever:
        retriever.index([Passage("a", "text")])
    with pytest.raises(InputError, match="that are no FAQ") as caught:
        open_service(tmp_path, faq_name="default", model=HashEncoder())
    held = [folder for folder in shard._open if folder.is_relative_to(tmp_path.resolve())]
    assert held == [], caught


def test_a_service_whose_faq_has_another_model_holds_no_folder(tmp_path: Path) -> None:
    """The collection, which was opened before it, stayed open."""
    with Retriever.open(tmp_path, model=HashEncoder(dim=64)) as retriever:
        retriever.index([Passage("a", "text")])
    with Faq.open(tmp_path, model=HashEncoder(dim=32)) as faq:
        faq.add(FaqEntry(id="a", answer="b", phrasings=["c"]))
    with pytest.raises(ContractError) as caught:
        open_service(tmp_path, model=HashEncoder(dim=64))
    held = [folder for folder in shard._open if folder.is_relative_to(tmp_path.resolve())]
    assert held == [], caught


def test_a_service_may_run_beside_the_main_thread() -> None:
    """Signals can be asked for in the main thread alone, and it did not start."""
    entered, failed = [], []

    def enter() -> None:
        try:
            with _Server(uvicorn.Config(application, log_config=None)).capture_signals():
                entered.append(True)
        except ValueError as error:
            failed.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert (entered, failed) == ([True], [])


@pytest.mark.parametrize("host", ["a..b", "ключ..", "a\x00b"])
def test_a_host_that_is_no_name_is_refused(host: str) -> None:
    with (
        pytest.raises(InputError, match="cannot be listened at"),
        _listener(ServeSettings(host=host, port=0)),
    ):
        pass


# Connections ----------------------------------------------------------------------------


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    """A service in this event loop; its port."""
    settings = ServeSettings(port=0)
    app = create_app(Service(SharedModels(HashEncoder())), settings)
    server = _Server(_config(app, settings))
    with _listener(settings) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield listener.getsockname()[1]
        server.should_exit = True
        await serving


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nhost: loc"])
async def test_a_connection_without_a_request_is_closed(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """It was held for ever."""
    monkeypatch.setattr(HeadTimedProtocol, "head_s", 0.05)
    async with listening() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        writer.close()


async def test_a_head_that_comes_byte_by_byte_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each byte began the time anew, also after an answer."""
    monkeypatch.setattr(HeadTimedProtocol, "head_s", 0.05)
    async with listening() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        read = asyncio.create_task(reader.read())
        writer.write(b"GET /healthz HTTP/1.1\r\nx: ")
        deadline = monotonic() + PATIENCE_S
        while not read.done():
            assert monotonic() < deadline
            writer.write(b"x")
            await asyncio.sleep(0.01)
        writer.close()


async def test_a_request_that_is_answered_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body has the time of a request, and an answer too."""
    monkeypatch.setattr(HeadTimedProtocol, "head_s", 0.05)
    async with listening() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = ("POST /v1/embeddings HTTP/1.1", "host: localhost", "connection: close")
        typed = ("content-type: application/json", "content-length: 14")
        writer.write("\r\n".join([*lines, *typed, "", ""]).encode())
        await asyncio.sleep(0.2)
        writer.write(b'{"input": "a"}')
        answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
        assert answer.startswith(b"HTTP/1.1 200")
        writer.close()


# Measuring ------------------------------------------------------------------------------


def test_what_is_waited_for_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def pass_(seconds: float) -> float:
        nonlocal now
        now += seconds
        return now

    def turn(function: Any, *args: Any) -> Any:
        pass_(10.0)
        return function(*args)

    monkeypatch.setattr(paper, "perf_counter", lambda: now)
    turns = Turns(turn)
    before = turns.clock()
    assert turns(pass_, 3.0) == 13.0
    pass_(2.0)
    assert turns.clock() - before == 5.0


def test_others_have_their_turn_while_the_paper_is_measured() -> None:
    """The models were held from the first sentence to the last pair, for minutes perhaps."""
    models = SharedModels(HashEncoder())
    models._scorer = OverlapScorer()
    models._reranker = Reranker(SharedScorer(models._scorer, turn=models.turn))
    turns = []
    service = Service(models)
    turn = models.turn
    models.turn = lambda *args: turns.append(args) or turn(*args)
    report = service.paper.efficiency()
    service.close()
    assert (report["sentences"], report["sampled_pairs"]) == (500, 64)
    assert report["bi_encoder"].startswith(HashEncoder().identity.name)
    # 500 sentences, of which some hundred are a batch; a warm-up of 32 pairs, and five of 13.
    assert len(turns) >= 2 + 2 + 5


# Settings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"port": 70_000},
        {"threads": 0},
        {"queue": -1},
        {"timeout_s": 0.0},
        {"timeout_s": float("inf")},
        {"host": " "},
        {"max_body": 0},
        {"max_batch": 100_001},
        {"max_k": 1001},
        {"max_text": 20_001},
    ],
)
def test_settings_out_of_range_are_refused(settings) -> None:
    with pytest.raises(InputError, match=r"expected|empty"):
        ServeSettings(**settings)
    with pytest.raises(InputTypeError, match="whole number"):
        ServeSettings(threads=1.5)


@pytest.mark.parametrize(
    "origin", ["example.org", "https://example.org/", "https://Example.org", "https://a/b", ""]
)
def test_an_origin_that_no_browser_sends_is_refused(origin: str) -> None:
    """It was taken, and let nobody in."""
    with pytest.raises(InputError, match="as no browser sends it"):
        ServeSettings(origins=(origin,))
    assert ServeSettings(origins=("*", "https://example.org", "http://localhost:3000")).origins


def test_who_may_come_in_follows_from_host_and_keys() -> None:
    assert not ServeSettings().open_to_all
    assert ServeSettings(host="0.0.0.0").open_to_all
    assert not ServeSettings(host="0.0.0.0", keys=Keys([KEY])).open_to_all


# Limits of requests ---------------------------------------------------------------------


def test_what_is_over_a_limit_is_refused_in_one_sentence() -> None:
    """More hits than are allowed were cut to those, and nobody was told."""
    settings = ServeSettings(max_k=10, max_text=5)
    calls = Calls(Service(SharedModels(HashEncoder())), settings, None, Metrics())
    calls.check_k(10)
    calls.check_text("question", "12345")
    calls.check_text("question", "12345 12345", questions=2)
    with pytest.raises(InputError, match="k is 11, expected 10 at most"):
        calls.check_k(11)
    with pytest.raises(InputError, match="question has 6 characters, expected 5 at most"):
        calls.check_text("question", "123456")
    with pytest.raises(InputError, match="question has 12 characters, expected 11 at most"):
        calls.check_text("question", "123456 12345", questions=2)
    calls.service.close()


def test_a_cross_encoder_that_is_not_there_is_told_of_by_who_asked_for_it() -> None:
    """All were told to leave budget_ms out, which one of them gives."""
    retriever = SimpleNamespace(profile=None, with_reranker=None, close=lambda: None)
    service = Service(SharedModels(HashEncoder(), reranker="/no/such/model"), retriever)
    said = "there is no '/no/such/model' on this machine"
    with pytest.raises(InputError, match=f"the request asks .* {said}: leave budget_ms"):
        service.searched(rerank=True)
    retriever.profile = Profile.named("accurate")
    for rerank in (True, False):
        with pytest.raises(InputError, match=f"the collection's profile asks .* {said}: save"):
            service.searched(rerank=rerank)
    with pytest.raises(InputError, match=f"the measurement takes .* {said}") as measured:
        service.paper.efficiency()
    with pytest.raises(InputError, match=f"/rerank takes .* {said}") as routed:
        service.models.scorer()
    with pytest.raises(InputError, match="leave --faq-rerank out, or start the service with"):
        service.models.reranker(Wanted.FAQ)
    assert "budget_ms" not in f"{measured.value} {routed.value}"
    service.close()


# Metrics --------------------------------------------------------------------------------


def test_metrics_are_written_as_prometheus_reads_them() -> None:
    metrics = Metrics()
    metrics.request("/search", "POST", 200, 0.0007)
    metrics.request("/search", "POST", 200, 0.3)
    metrics.request('/odd"\\\n', "GET", 404, 100.0)
    metrics.stages({"encode": 4.0})
    metrics.faq_outcome("abstain")
    metrics.watch("waiting", "gauge", "Requests that wait.", lambda: 3)
    lines = metrics.rendered().splitlines()
    assert 'sbert_retriever_requests_total{route="/search",method="POST",status="200"} 2' in lines
    assert (
        'sbert_retriever_requests_total{route="/odd\\"\\\\\\n",method="GET",status="404"} 1'
        in lines
    )
    assert 'sbert_retriever_request_seconds_bucket{route="/search",le="0.001"} 1' in lines
    assert 'sbert_retriever_request_seconds_bucket{route="/search",le="0.25"} 1' in lines
    assert 'sbert_retriever_request_seconds_bucket{route="/search",le="0.5"} 2' in lines
    assert 'sbert_retriever_request_seconds_bucket{route="/search",le="+Inf"} 2' in lines
    assert 'sbert_retriever_request_seconds_sum{route="/search"} 0.3007' in lines
    assert 'sbert_retriever_stage_seconds_bucket{stage="encode",le="0.005"} 1' in lines
    assert 'sbert_retriever_faq_questions_total{outcome="abstain"} 1' in lines
    assert "sbert_retriever_waiting 3" in lines
    assert lines.count("# TYPE sbert_retriever_request_seconds histogram") == 1


# Logs -----------------------------------------------------------------------------------


def test_logs_are_json_lines_without_texts_of_users() -> None:
    """An error that quotes a question is logged by its type and place alone."""
    for texts in (False, True):
        stream = io.StringIO()
        with logging_to(stream, texts=texts):
            log("request", status=200, ms=1.5)
            try:
                raise ValueError("the question was: my secret")
            except ValueError as error:
                LOGGER.error("fault", exc_info=error)
        first, second = map(json.loads, stream.getvalue().splitlines())
        assert (first["event"], first["status"], first["ms"]) == ("request", 200, 1.5)
        assert second["error"]["type"] == "ValueError"
        assert "test_limits.py" in second["error"]["at"][-1]
        assert ("my secret" in stream.getvalue()) is texts
    assert not LOGGER.handlers
