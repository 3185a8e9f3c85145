"""The names, arguments and defaults that other people's scripts call."""

from __future__ import annotations

import dataclasses
import inspect
import tomllib

import langchain_sbert
import pytest
import sbert_ray
from langchain_sbert import SBERTEmbeddings, SBERTFaqFirst, SBERTRetriever, SBERTVectorStore

import sbert_retriever
from sbert_retriever import (
    BiEncoder,
    CrossEncoder,
    Failure,
    Faq,
    FaqAnswer,
    FaqEntry,
    Hit,
    IndexReport,
    Passage,
    Profile,
    Reranker,
    Retriever,
    SearchResult,
    TrainConfig,
    TrainData,
    Trainer,
    TrainStep,
)
from sbert_retriever.encoder.colbert import ColbertEncoder
from sbert_retriever.encoder.micro_batch import MicroBatchedEncoder
from sbert_retriever.encoder.two_encoders import TwoEncoders
from sbert_retriever.evaluation.models import load_model
from sbert_retriever.evaluation.significance import compare
from sbert_retriever.evaluation.tasks import Plan, make_plan
from sbert_retriever.faq import Calibration, Feedback, Gap, Labelled, Thresholds
from sbert_retriever.micro_batching import MicroBatcher
from sbert_retriever.mining import (
    communities,
    find_clusters,
    find_duplicates,
    most_similar_pairs,
    pairs_at_least,
    write_picture,
)
from sbert_retriever.serve import create_app, open_service, serve
from sbert_retriever.training import TrainDev, mine_hard_negatives, read_config, read_objective
from sbert_retriever.transfer import (
    copy_collection,
    drop_collection,
    rebuild,
    restore,
    snapshot,
    switch_collection,
)


def test_front_doors() -> None:
    assert sbert_retriever.__all__ == [
        "BiEncoder",
        "CrossEncoder",
        "Reranker",
        "Retriever",
        "Passage",
        "Hit",
        "Profile",
        "SearchResult",
        "IndexReport",
        "Failure",
        "Faq",
        "FaqEntry",
        "FaqAnswer",
        "Trainer",
        "TrainConfig",
        "TrainStep",
        "TrainData",
    ]
    assert langchain_sbert.__all__ == [
        "SBERTEmbeddings",
        "SBERTVectorStore",
        "SBERTRetriever",
        "SBERTReranker",
        "SBERTCrossEncoder",
        "SBERTFaqTool",
        "SBERTFaqFirst",
    ]
    assert sbert_ray.__all__ == ["encode_to_parquet", "import_parquet", "index", "Workers"]


@pytest.mark.parametrize("package", [sbert_retriever, langchain_sbert, sbert_ray])
def test_every_public_name_is_there_and_says_what_it_is(package) -> None:
    for name in package.__all__:
        assert inspect.getdoc(getattr(package, name))
        assert name in dir(package)


@pytest.mark.parametrize("package", [sbert_retriever, langchain_sbert, sbert_ray])
def test_an_unknown_name_is_an_attribute_error(package) -> None:
    with pytest.raises(AttributeError, match="no attribute 'Retreiver'"):
        package.Retreiver  # noqa: B018  # looking it up is the test


def signature(function) -> str:
    """Names, order, kinds and defaults; without annotations, which only the reader needs."""
    seen = inspect.signature(function)
    bare = [
        p.replace(annotation=inspect.Parameter.empty)
        for p in seen.parameters.values()
        if p.name not in {"self", "cls"}
    ]
    return str(seen.replace(parameters=bare, return_annotation=inspect.Signature.empty))


CALLS = {
    BiEncoder.load: "(name, *, device='auto', dtype='auto', revision=None, cache_dir=None, "
    "token=None, local_files_only=None, query_prompt=None, passage_prompt=None, max_length=None, "
    "truncate_dim=None, pooling=None, normalize=None, on_truncate='warn', batch_tokens=None, "
    "cpu_fallback=False)",
    BiEncoder.encode_to_file: "(texts, path, *, role='passage', show_progress=False)",
    BiEncoder.warm_up: "()",
    BiEncoder.encode_queries: "(texts, *, show_progress=False, on_truncate=None)",
    BiEncoder.encode_passages: "(texts, *, show_progress=False, on_truncate=None)",
    BiEncoder.encode_detailed: "(texts, *, role, show_progress=False)",
    BiEncoder.token_offsets: "(texts)",
    BiEncoder.token_counts: "(texts, *, role)",
    CrossEncoder.load: "(name, *, device='auto', dtype='auto', revision=None, cache_dir=None, "
    "token=None, local_files_only=None, max_length=None, label=None, scale='logit', "
    "long_passages='truncate', on_truncate='warn', batch_tokens=None, query_prompt=None, "
    "cpu_fallback=False)",
    CrossEncoder.warm_up: "()",
    load_model: "(name, options=None, *, label=None, all_labels=False)",
    make_plan: "(request)",
    Plan.run: "(model, *, name, on_set=None)",
    compare: "(ours, theirs, *, test='bootstrap', draws=2000, level=0.95, seed=0)",
    CrossEncoder.score: "(pairs, *, show_progress=False)",
    CrossEncoder.score_detailed: "(pairs, *, show_progress=False)",
    CrossEncoder.predict_logits: "(pairs, *, show_progress=False)",
    CrossEncoder.rank: "(query, passages, *, top_k=None)",
    CrossEncoder.prepare: "(pairs, *, max_length=None)",
    Reranker: "(scorer, *, on_failure='fallback', rrf_k=60, clock=<built-in function "
    "perf_counter>)",
    Reranker.load: "(name, *, device='auto', dtype='auto', max_length=None, label=None, "
    "scale='logit', long_passages='truncate', on_failure='fallback')",
    Reranker.rerank: "(query, hits, *, k=None, candidates=None, budget_ms=None, mode='replace', "
    "weight=None, early_stop=None, min_score=None, pair_length=None)",
    Reranker.rerank_detailed: "(query, hits, options=None)",
    Reranker.arerank: "(query, hits, options=None)",
    Reranker.rerank_batch: "(queries, hits, *, k=None, candidates=None, mode='replace', "
    "weight=None, min_score=None, pair_length=None, show_progress=False)",
    Reranker.warm_up: "()",
    ColbertEncoder.load: "(name, *, device='auto', dtype='auto', revision=None, "
    "cache_dir=None, token=None, local_files_only=None, query_length=None, passage_length=None, "
    "batch_tokens=None, cpu_fallback=False)",
    ColbertEncoder.encode_tokens: "(texts, *, role)",
    ColbertEncoder.warm_up: "()",
    Retriever.open: "(location=None, *, model=None, reranker=None, late_encoder=None, sparse=None, "
    "quantization=None, storage=None, truncate_dim=None, collection_name='default', tenant=None, "
    "device='auto', dtype='auto', api_key=None, client=None, async_client=None, filterable=None, "
    "layout=None, create=True, timeout_s=None, prefer_grpc=False, grpc_port=None, retry=None)",
    Retriever.index: "(passages, *, prune=False, dry_run=False, strict=False, on_truncate=None, "
    "on_progress=None, sources=(), spared=(), failures=None, ordering=None)",
    Retriever.search: "(query, k=10, *, filter=None, score_threshold=None, expand=None, window=1, "
    "exact=None, ef=None, oversampling=None, rescore=None, group_by=None, group_size=1, "
    "diversity=None, distinct=None, timeout_s=None, mode=None, fusion=None, candidates=None, "
    "rerank_mode=None, budget_ms=None, profile=None, rerank_threshold=None)",
    Retriever.search_detailed: "(query, k=10, **options)",
    Retriever.search_batch: "(queries, k=10, **options)",
    Retriever.search_batch_detailed: "(queries, k=10, **options)",
    Retriever.with_reranker: "(reranker)",
    Retriever.with_tenant: "(tenant)",
    Retriever.awith_tenant: "(tenant)",
    Retriever.save_profile: "(profile)",
    Retriever.make_filterable: "(fields)",
    Retriever.search_by_vector: "(vector, k=10, **options)",
    Retriever.similar: "(id, k=10, **options)",
    Retriever.get: "(ids)",
    Retriever.scroll: "(*, filter=None, limit=100, offset=None)",
    Retriever.count: "(filter=None)",
    Retriever.sources: "()",
    Retriever.info: "()",
    Retriever.delete: "(ids=None, *, filter=None, source=None, ordering=None)",
    Retriever.delete_all: "(*, ordering=None)",
    Retriever.close: "()",
    Faq.open: "(location=None, *, model=None, reranker=None, sparse=None, answers=None, mode=None, "
    "thresholds=None, log=None, log_unanswered=False, collection_name='faq', device='auto', "
    "dtype='auto', api_key=None, client=None, create=True, timeout_s=None, prefer_grpc=False, "
    "retry=None)",
    Faq.ask: "(question, previous=None, budget_ms=None, *, k=3, filter=None)",
    Faq.warm_up: "()",
    Faq.add: "(entries, *, replace=False)",
    Faq.edit: "(id, *, answer=None, phrasings=None, tags=None, language=None, links=None)",
    Faq.delete: "(id)",
    Faq.get: "(id)",
    Faq.entries: "()",
    Faq.sharing: "(phrasing)",
    Faq.count: "()",
    Faq.load: "(*paths, prune=False)",
    Faq.calibrate: "(labelled=None, *, target_precision=0.95, out_of_scope_share=None, folds=5, "
    "seed=0, save=True)",
    Faq.feedback: "(question, entry, good)",
    Faq.feedback_kept: "()",
    Faq.training_pairs: "(*, second='phrasing')",
    Faq.gaps: "(questions=None, *, threshold=None, min_size=2)",
    Faq.clear_log: "()",
    Faq.close: "()",
    SBERTFaqFirst: "(faq, fallback, *, input_key='question', budget_ms=None, output=None)",
    find_duplicates: "(retriever, threshold=0.9, *, filter=None, limit=1000, exact=None, "
    "on_share=None)",
    find_clusters: "(retriever, *, threshold=None, k=None, min_size=None, method=None, "
    "filter=None, seed=0, on_share=None)",
    write_picture: "(clusters, path)",
    most_similar_pairs: "(vectors, k=1, *, block=1024)",
    pairs_at_least: "(vectors, threshold, *, limit=1000, block=1024, on_share=None)",
    communities: "(vectors, threshold, *, min_size=3, block=1024, on_share=None)",
    copy_collection: "(source, target, *, collection_name='default', to_collection_name=None, "
    "model=None, device='auto', dtype='auto', api_key=None, to_api_key=None, prune=False, "
    "sample=100, on_progress=None)",
    snapshot: "(location, file, *, collection_name=None, api_key=None)",
    restore: "(file, location, *, replace=False, api_key=None)",
    rebuild: "(location, *, model, collection_name='default', alias=None, drop_old=False, "
    "device='auto', dtype='auto', api_key=None, on_progress=None)",
    switch_collection: "(location, collection_name, to_collection_name, *, drop_old=False, "
    "api_key=None)",
    drop_collection: "(location, collection_name, *, api_key=None)",
    MicroBatcher: "(function, *, most=64, size=None, wait_s=0.002, check=None)",
    MicroBatcher.run: "(items)",
    MicroBatchedEncoder: "(encoder, *, wait_s=0.002, turn=None)",
    open_service: "(location, *, collection_name='default', faq_name='faq', model=None, "
    "reranker=None, device='auto', dtype='auto', api_key=None, tenant=None, faq_rerank=False, "
    "log_unanswered=False, log=None, retry=None)",
    create_app: "(service, settings=None)",
    serve: "(service, settings=None, *, on_listening=None)",
    TwoEncoders.load: "(name, *, device='auto', dtype='auto', revision=None, cache_dir=None, "
    "token=None, local_files_only=None, query_prompt=None, passage_prompt=None, max_length=None, "
    "truncate_dim=None, pooling=None, normalize=None, on_truncate='warn', batch_tokens=None, "
    "cpu_fallback=False)",
    Trainer: "(config, output, *, data=None)",
    Trainer.train: "(*, resume=False, on_log=None)",
    TrainConfig: "(*, model, steps, kind='bi-encoder', weights='pretrained', pooling=None, "
    "normalize=None, max_length=None, dropout=None, seed=0, device='auto', precision='float32', "
    "save_every=500, keep_checkpoints=2, log_every=50, dev=None, report_to=())",
    TrainStep: "(*, name='train', objective, data, epochs=1.0, max_updates=None, batch_size=16, "
    "accumulate=1, learning_rate=2e-05, warmup=0.1, weight_decay=0.0, max_grad_norm=1.0, "
    "smart_batching=False, chunk_size=None, negatives=1, view=None, crop=(0.1, 0.5), teacher=None, "
    "matryoshka=(), matryoshka_weights=())",
    TrainData: "(*, kind, files=(), rows=(), columns=<factory>, format=None, header=True, "
    "encoding='utf-8', score_range=(0.0, 5.0), limit=None)",
    TrainDev: "(*, data, every=100, measure=None, keep_best=False, steps=())",
    read_config: "(path)",
    read_objective: "(given)",
    mine_hard_negatives: "(retriever, pairs, *, negatives=5, candidates=50, scorer=None, "
    "margin=3.0, on_share=None)",
    SBERTVectorStore: "(embedding, location=None, *, late_encoder=None, sparse=None, "
    "quantization=None, storage=None, collection_name='docs', tenant=None, client=None, "
    "async_client=None, api_key=None, filterable=None, timeout_s=None, prefer_grpc=False, "
    "grpc_port=None)",
    SBERTVectorStore.from_existing_collection: "(embedding, location=None, *, collection_name, "
    "client=None, async_client=None, api_key=None, vector_name='', "
    "content_payload_key='page_content', metadata_payload_key='metadata', timeout_s=None, "
    "prefer_grpc=False, grpc_port=None)",
    SBERTVectorStore.from_texts: "(texts, embedding, metadatas=None, *, ids=None, **settings)",
    SBERTVectorStore.from_documents: "(documents, embedding, *, ids=None, **settings)",
    SBERTVectorStore.as_retriever: "(**settings)",
    sbert_ray.encode_to_parquet: "(source, folder, *, model, text_field='text', id_field=None, "
    "metadata_fields=None, truncate_dim=None, device='auto', dtype='auto', workers=None, "
    "shard_rows=1024, on_progress=None)",
    sbert_ray.import_parquet: "(folder, location, *, collection_name='default', api_key=None, "
    "partial=False, on_progress=None)",
    sbert_ray.index: "(source, location, *, model=None, collection_name='default', tenant=None, "
    "sparse=None, quantization=None, storage=None, filterable=None, text_field='text', "
    "id_field=None, metadata_fields=None, truncate_dim=None, device='auto', dtype='auto', "
    "api_key=None, timeout_s=None, prefer_grpc=False, grpc_port=None, retry=None, workers=None, "
    "on_progress=None)",
    sbert_ray.Workers: "(*, count=None, cpus=None, gpus=None)",
    SBERTRetriever.open: "(location=None, *, model=None, sparse=None, k=4, filter=None, "
    "score_threshold=None, search_type='similarity', search_kwargs=None, reranker=None, "
    "candidates=None, rerank_mode=None, budget_ms=None, profile=None, rerank_threshold=None, "
    "late_encoder=None, quantization=None, storage=None, filterable=None, "
    "collection_name=None, tenant=None, device='auto', "
    "dtype='auto', api_key=None, client=None, async_client=None, timeout_s=None, "
    "prefer_grpc=False, grpc_port=None)",
}


@pytest.mark.parametrize("function", CALLS, ids=lambda f: f.__qualname__)
def test_signatures(function) -> None:
    assert signature(function) == CALLS[function]


SYNCHRONOUS = [
    *("search", "search_detailed", "search_batch", "search_batch_detailed"),
    *("search_by_vector", "similar", "save_profile", "make_filterable"),
    *("get", "scroll", "count", "info", "index", "delete", "delete_all"),
]


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_each_method_has_an_asynchronous_twin_that_takes_the_same(name: str) -> None:
    twin = getattr(Retriever, f"a{name}")
    assert inspect.iscoroutinefunction(twin)
    # `asearch` hands its options on; `search` spells them out for the reader.
    expected = "(query, k=10, **options)" if name == "search" else CALLS[getattr(Retriever, name)]
    assert signature(twin) == expected


FAQ_TWINS = [
    *("ask", "add", "edit", "delete", "get", "entries", "count", "load"),
    *("calibrate", "feedback", "gaps"),
]


@pytest.mark.parametrize("name", FAQ_TWINS)
def test_what_an_faq_does_it_does_for_an_event_loop_too(name: str) -> None:
    twin = getattr(Faq, f"a{name}")
    assert inspect.iscoroutinefunction(twin)
    assert signature(twin) == CALLS[getattr(Faq, name)]


def test_the_options_of_a_search_are_those_that_search_spells_out() -> None:
    from sbert_retriever.search.request import Query, QueryOptions

    spelt = inspect.signature(Retriever.search).parameters
    named = [p.name for p in spelt.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    assert list(QueryOptions.__annotations__) == named
    asked = Query()
    assert {name: spelt[name].default for name in named} == {n: getattr(asked, n) for n in named}


NOUNS = {
    Passage: "(id, text, metadata=<factory>, source=None)",
    Hit: "(passage, score, score_kind='cosine', first_score=None, first_score_kind=None, "
    "rerank_score=None, rerank_score_kind=None, reranked=False, cut_short=False, fallback=None, "
    "truncated=False)",
    Profile: "(*, name='custom', candidates=50, rerank_depth=None, rerank_mode='replace', "
    "fuse_weight=None, pair_length=None, budget_ms=None, late=0, early_margin=None, "
    "early_batches=None, exact=False, ef=None, oversampling=None, rescore=None, "
    "truncate_dim=None, reranker=None, late_encoder=None, mode=None, fusion=None)",
    SearchResult: "(hits, timings_ms, candidates=0, rescored=0)",
    Failure: "(id, reason)",
    FaqEntry: "(*, id, answer, phrasings, tags=(), language=None, links=())",
    FaqAnswer: "(*, question, outcome, answer=None, confidence=None, entry=None, phrasing=None, "
    "candidates=(), exact=False, timings_ms=<factory>, fallback=None)",
    Labelled: "(*, question, entry=None)",
    Feedback: "(*, question, entry, good, at)",
    Gap: "(*, question, questions, count, nearest=None, score=None)",
    Thresholds: "(*, score, margin=0.0, choose, follow_up=None)",
    Calibration: "(*, right, listed, answer_at, choose_at, exact, setup, target_precision, "
    "questions, out_of_scope_share, precision, coverage)",
    IndexReport: "(*, added=0, updated=0, unchanged=0, deleted=0, failed=0, encoded=0, "
    "truncated=0, longest=0, failures=(), dry_run=False, seconds=0.0, pruned=())",
}


EXAMPLES = {
    Passage: ("id", "text"),
    Hit: (Passage("id", "text"), 0.5),
    Profile: (),
    SearchResult: ([], {}),
    Failure: ("id", "why"),
    FaqEntry: {"id": "id", "answer": "answer", "phrasings": ("question",)},
    FaqAnswer: {"question": "question", "outcome": "abstain"},
    Labelled: {"question": "question"},
    Feedback: {"question": "question", "entry": "id", "good": True, "at": "now"},
    Gap: {"question": "question", "questions": ("question",), "count": 1},
    Thresholds: {"score": 0.7, "choose": 0.5},
    Calibration: dict.fromkeys(
        (
            *("right", "listed", "answer_at", "choose_at", "exact", "setup"),
            *("target_precision", "questions", "out_of_scope_share", "precision", "coverage"),
        ),
        None,
    ),
    IndexReport: (),
}


@pytest.mark.parametrize("noun", NOUNS, ids=lambda n: n.__name__)
def test_nouns_are_frozen_and_keep_their_fields(noun) -> None:
    assert signature(noun) == NOUNS[noun]
    assert noun.__dataclass_params__.frozen
    given = EXAMPLES[noun]
    made = noun(**given) if isinstance(given, dict) else noun(*given)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, dataclasses.fields(noun)[0].name, "changed")


def test_a_hit_hands_out_its_passage_s_fields() -> None:
    hit = Hit(Passage("id", "text", {"lang": "en"}, "file.txt"), 0.5)
    assert (hit.id, hit.text, hit.metadata, hit.source) == (
        "id",
        "text",
        {"lang": "en"},
        "file.txt",
    )


def test_fields_of_the_langchain_classes() -> None:
    assert list(SBERTEmbeddings.model_fields) == [
        *("model_name", "device", "dtype", "query_prompt", "passage_prompt", "max_length"),
        *("truncate_dim", "pooling", "normalize", "on_truncate", "batch_tokens"),
        *("show_progress", "revision", "cache_dir", "token", "local_files_only", "lazy"),
    ]
    assert SBERTEmbeddings.model_fields["model_name"].alias == "model"
    assert {"vectorstore", "k", "filter", "score_threshold", "search_type", "search_kwargs"} <= set(
        SBERTRetriever.model_fields
    )
    assert SBERTRetriever.model_fields["k"].default == 4
    for model in (SBERTEmbeddings, SBERTRetriever):
        assert model.model_config["extra"] == "forbid"


def test_the_version_is_the_one_of_the_project_file(root) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert sbert_retriever.__version__ == project["version"]
