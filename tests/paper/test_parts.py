"""The study's machinery: kept cells, tables, orders, and a page that is made of them alone."""

import json

import numpy as np
import pytest
import torch

from sbert_retriever.encoder.checkpoint import read_checkpoint
from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.models import ModelOptions, load_bi_encoder
from sbert_retriever.paper.cells import Cell, Cells
from sbert_retriever.paper.page import page
from sbert_retriever.paper.parts.batching import cut, padding
from sbert_retriever.paper.published import CONCATENATION, STSB
from sbert_retriever.paper.run import PARTS, run_study
from sbert_retriever.paper.section import ordering, spread
from sbert_retriever.paper.sizes import SIZES, size_named
from sbert_retriever.paper.starts import StaticEncoder, write_random
from sbert_retriever.paper.study import Study, taken


@pytest.fixture
def study(tmp_path):
    return Study(data=tmp_path, size=SIZES["tiny"], folder=tmp_path / "results")


def test_a_cell_is_measured_once_and_again_under_other_settings(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"x": 1.0}

    cells = Cells(tmp_path)
    cell = Cell(name="part/one", settings={"n": (1, 2)}, make=make)
    assert cells.known(cell) is None
    assert cells.measured(cell) == cells.measured(cell) == {"x": 1.0}
    assert len(made) == 1
    kept = json.loads((tmp_path / "part" / "one.json").read_text())
    assert kept["settings"] == {"n": [1, 2]}
    assert {"seconds", "machine", "made"} <= set(kept)
    other = Cell(name="part/one", settings={"n": (3,)}, make=make)
    assert cells.known(other) is None
    cells.measured(other)
    assert len(made) == 2


def test_a_cell_that_a_killed_run_left_half_written_is_measured_again(tmp_path):
    cell = Cell(name="one", settings={}, make=lambda: {"x": 2})
    (tmp_path / "one.json").write_text('{"settings": {')
    assert Cells(tmp_path).measured(cell) == {"x": 2}


def test_what_came_out_the_other_way_round_is_said():
    said = ordering({"a": 3.0, "b": 2.0}, {"a": 1.0, "b": 1.5})
    assert said == (
        "Of the 1 pairs of rows that the paper puts in an order, 0 come out the same way here. The "
        "other way round: b above a by 0.50 (the paper: a above b by 1.00)."
    )
    assert ordering({"a": 3.0, "b": 2.0}, {"a": 1.0, "b": None}) == ""


def test_the_spread_of_seeds_is_the_standard_deviation_of_a_sample():
    values = [70.1, 71.4, 72.0]
    assert spread(values) == f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f} (3 seeds)"


def test_fewer_are_spread_over_all():
    assert taken(range(10), 4) == (0, 2, 5, 7)
    assert taken(range(3), 10) == (0, 1, 2)


def test_batches_by_length_have_less_padding():
    ids = [np.zeros(n, dtype=np.int32) for n in [1, 9] * 32]
    assert padding(cut(ids, sort=False)) == pytest.approx(4 / 9)
    assert padding(cut(ids, sort=True)) == 0
    assert sorted(row for batch in cut(ids, sort=True) for row in batch.rows) == list(range(64))


def test_random_weights_are_drawn_by_the_seed_alone(tmp_path, tiny_folder):
    vectors = []
    for number, seed in enumerate((0, 0, 1)):
        torch.manual_seed(number)
        folder = write_random(str(tiny_folder), tmp_path / str(number), seed=seed)
        encoder = load_bi_encoder(str(folder), ModelOptions(device="cpu", pooling="mean"))
        vectors.append(encoder.encode_passages(["the cat was in the house"]))
    assert (vectors[0] == vectors[1]).all()
    assert not np.allclose(vectors[0], vectors[2])


def test_static_vectors_are_the_mean_of_the_words(tiny_folder):
    from safetensors.numpy import load_file

    from sbert_retriever.encoder.tokenizer import load_tokenizer

    checkpoint = read_checkpoint(tiny_folder)
    words = load_file(tiny_folder / "model.safetensors")["embeddings.word_embeddings.weight"]
    tokenizer = load_tokenizer(tiny_folder, checkpoint.config, max_length=32, lowercase=False)
    [ids] = tokenizer.encode(["the cat"]).ids
    assert len(ids) == 4
    encoder = StaticEncoder(str(tiny_folder))
    found = encoder.encode_passages(["the cat", ""])
    assert found[0] == pytest.approx(words[ids[1:3]].mean(axis=0))
    assert found[1] == pytest.approx(words[[ids[0], ids[3]]].mean(axis=0))
    assert encoder.encode_passages([]).shape == (0, encoder.dim)


def test_every_part_has_a_section_before_anything_is_measured(study):
    text = page(study, PARTS, Cells(study.folder))
    assert [f"({part.letter})" in text for part in PARTS] == [True] * 8
    assert "Nothing has been measured yet." in text
    assert "not run yet" in text


def test_cells_of_one_name_are_one_measurement(study):
    """Parts share training runs: the same name must never stand for other settings."""
    named = {}
    for part in PARTS:
        for cell in part.cells(study):
            assert named.setdefault(cell.name, cell) == cell
    assert len({name for name in named if name.startswith("train/bi-nli")}) >= len(CONCATENATION)
    assert sum(name.startswith("train/cross") for name in named) == sum(
        kind == "cross-encoder" for kind, _ in STSB
    )


@pytest.mark.parametrize(
    ("letter", "training", "needed"),
    [
        ("a", False, {"stsb", "sts12-16", "sick"}),
        ("e", False, {"senteval", "mrpc"}),
        ("f", True, {"ukp-aspect"}),
        ("g", True, {"sts12-16"}),
        ("h", True, {"scifact"}),
        ("d", True, {"stsb", "sts12-16", "sick", "conjnli", "senteval", "mrpc", "ukp-aspect"}),
    ],
)
def test_a_part_needs_its_own_data_alone(study, tmp_path, letter, training, needed):
    """(d) trains the model on NLI that is measured on everything but triplets."""
    with pytest.raises(ReadError, match="has no folder") as caught:
        run_study(study, tmp_path / "p.md", letters=[letter], training=training)
    assert set(str(caught.value).rpartition(" needs ")[2].split(", ")) == needed


def test_wrong_use(study, tmp_path):
    with pytest.raises(InputError, match="there is no part 'x', expected one of a, b, c"):
        run_study(study, tmp_path / "p.md", letters=["x"])
    everything = "'stsb': what is to be measured needs stsb, sts12-16, sick"
    with pytest.raises(ReadError, match=everything):
        run_study(study, tmp_path / "p.md")
    with pytest.raises(InputError, match="no size 'huge'"):
        size_named("huge")
