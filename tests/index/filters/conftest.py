"""The same points in the embedded engine and in the client's local mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import qdrant_edge as edge
from qdrant_client import QdrantClient, models

from sbert_retriever.index.edge.convert import edge_config, edge_filter, edge_point
from sbert_retriever.index.filters import build_filter
from sbert_retriever.index.metadata import plain_metadata


class Engines:
    """The same points in the embedded engine and in the client's local mode."""

    def __init__(self, folder: Path, payloads: list[dict]) -> None:
        vectors = {"dense": models.VectorParams(size=2, distance=models.Distance.COSINE)}
        points = [
            models.PointStruct(id=i, vector={"dense": [1.0, 0.0]}, payload={"metadata": payload})
            for i, payload in enumerate(payloads)
        ]
        self.shard = edge.EdgeShard.create(str(folder), edge_config(vectors))
        self.shard.update(edge.UpdateOperation.upsert_points([edge_point(p) for p in points]))
        self.client = QdrantClient(":memory:")
        self.client.create_collection("c", vectors)
        self.client.upsert("c", points)

    def embedded(self, built: models.Filter) -> set[int]:
        request = edge.ScrollRequest(
            limit=1000, filter=edge_filter(built), with_payload=False, with_vector=False
        )
        return {point.id for point in self.shard.scroll(request)[0]}

    def local(self, built: models.Filter) -> set[int]:
        return {point.id for point in self.client.scroll("c", built, limit=1000)[0]}

    def both(self, spec: dict) -> list[int]:
        built = build_filter(spec)
        assert built is not None
        found = self.embedded(built)
        assert self.local(built) == found
        return sorted(found)

    def close(self) -> None:
        self.shard.close()
        self.client.close()


def _made_in(folder: Path) -> Iterator[Callable[..., Engines]]:
    made: list[Engines] = []

    def make(*metadatas: dict) -> Engines:
        plain = [plain_metadata(m, passage_id="p") for m in metadatas]
        made.append(Engines(folder / str(len(made)), plain))
        return made[-1]

    yield make
    for item in made:
        item.close()


@pytest.fixture
def engines_of(tmp_path: Path) -> Iterator[Callable[..., Engines]]:
    """Makes both engines over metadata."""
    yield from _made_in(tmp_path)


@pytest.fixture(scope="module")
def lasting_engines_of(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., Engines]]:
    """The same, for several tests to share."""
    yield from _made_in(tmp_path_factory.mktemp("filters"))
