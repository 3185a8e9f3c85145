"""Batches: drawn from the seed, no text twice, of like length; and views of single texts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sbert_retriever.training.readers import Example
from sbert_retriever.training.sampling import Batches, distinct_batches
from sbert_retriever.training.views import Examples

TEXTS = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvwxyz")), max_size=40)


@given(texts=TEXTS, size=st.integers(1, 7))
def test_no_batch_holds_a_text_twice_and_nothing_is_lost(texts, size) -> None:
    batches = distinct_batches(texts, list(range(len(texts))), size)
    assert sorted(i for batch in batches for i in batch) == list(range(len(texts)))
    for batch in batches:
        held = [text for i in batch for text in set(texts[i])]
        assert len(held) == len(set(held))
        assert 1 <= len(batch) <= size


def made(count: int = 50, **settings) -> Batches:
    examples = [Example((f"{'x' * (n % 9 + 1)}{n}", f"y{n}")) for n in range(count)]
    return Batches(Examples(examples), batch_size=8, seed=3, **settings)


def test_an_epoch_is_the_same_when_drawn_again_and_another_is_not() -> None:
    first, again = made(), made()
    again.set_epoch(4)
    other = list(again)
    again.set_epoch(0)
    assert list(first) == list(again)
    assert list(first) != other


def test_a_process_that_goes_on_in_a_later_epoch_draws_as_in_that_epoch() -> None:
    """Of six batches the first of two processes has 0, 2 and 4; it has done one of them."""
    from accelerate import skip_first_batches
    from accelerate.data_loader import BatchSamplerShard, DataLoaderShard

    batches = made(48)
    dealt = BatchSamplerShard(batches, num_processes=2, process_index=0)
    rest = skip_first_batches(DataLoaderShard(batches.examples, batch_sampler=dealt), 1)
    rest.set_epoch(3)
    whole = made(48)
    whole.set_epoch(3)
    third = list(whole)
    assert list(rest.batch_sampler) == [third[2], third[4]]


def test_every_epoch_has_as_many_batches_as_the_loader_is_told() -> None:
    """Batches without duplicates may come out in other numbers in each epoch."""
    examples = [Example((f"q{n % 7}", f"p{n}")) for n in range(40)]
    batches = Batches(Examples(examples), batch_size=8, seed=0, distinct=True)
    for epoch in range(5):
        batches.set_epoch(epoch)
        assert len(list(batches)) == len(batches)


def test_smart_batches_hold_texts_of_like_length() -> None:
    def spread(batches: Batches) -> float:
        sizes = [[len(batches.examples.all[i].texts[0]) for i in batch] for batch in batches]
        return float(np.mean([max(s) - min(s) for s in sizes]))

    assert spread(made(400, smart=True)) < spread(made(400)) / 3
    drawn = [i for batch in made(400, smart=True) for i in batch]
    assert sorted(drawn) == list(range(400))
    assert drawn != sorted(drawn)


def test_smart_batches_dealt_to_two_processes_hold_every_example() -> None:
    """The last two of 50 make a short batch, wherever the drawn order would put it."""
    from accelerate.data_loader import BatchSamplerShard

    for epoch in range(10):
        batches = made(50, smart=True)
        batches.set_epoch(epoch)
        dealt = [
            list(BatchSamplerShard(batches, num_processes=2, process_index=number))
            for number in range(2)
        ]
        assert [len(part) for part in dealt] == [4, 4]
        assert {i for part in dealt for batch in part for i in batch} == set(range(50))


def test_every_batch_by_label_holds_triplets_however_many_labels_there_are() -> None:
    """Sixty labels of four examples: a batch of eight drawn without them would hold hardly any."""
    examples = Examples([Example((f"text {n}",), n % 60) for n in range(240)])
    batches = Batches(examples, batch_size=8, seed=3, by_label=True)
    for epoch in (0, 1):
        batches.set_epoch(epoch)
        drawn = list(batches)
        assert sorted(i for batch in drawn for i in batch) == list(range(240))
        assert all(len({i % 60 for i in batch}) == 2 for batch in drawn)
    batches.set_epoch(0)
    assert drawn != list(batches)
    # In fours two go together, and by chance both pairs may be of one label.
    small = Batches(examples, batch_size=4, seed=3, by_label=True)
    assert sum(len({i % 60 for i in batch}) == 2 for batch in small) > 50


def test_crops_are_parts_of_the_text_drawn_anew_in_each_epoch() -> None:
    text = " ".join(f"w{n}" for n in range(100))
    examples = Examples([Example((text,))], view="crops", crop=(0.1, 0.5), seed=1)
    first = examples[0]
    assert examples[0] == first
    assert all(10 <= len(crop.split()) <= 50 and crop in text for crop in first.texts)
    examples.set_epoch(1)
    assert examples[0] != first


def test_twice_is_the_text_twice() -> None:
    assert Examples([Example(("a b",))], view="twice")[0] == Example(("a b", "a b"))
