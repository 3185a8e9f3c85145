"""How many workers there are, and what each of them has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sbert_retriever.errors import InputError
from sbert_retriever.types.checks import in_range, whole

_CORES = 4


@dataclass(frozen=True, kw_only=True)
class Workers:
    """The actors that encode. What is None is chosen by what the cluster has.

    Args:
        count: How many; None is as many as there is room for.
        cpus: Cores of each, which are its threads too; None is 4, or fewer where there are fewer,
            and 1 beside a GPU.
        gpus: GPUs of each; None is 1 where the cluster has one, else 0. A fraction lets several
            workers share a GPU.

    Raises:
        InputError: A number is out of range.
        InputTypeError: One is no number, or the count no whole one.

    Examples:
        >>> Workers(count=8, gpus=1).count
        8
    """

    count: int | None = None
    cpus: float | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        if self.count is not None:
            whole("Workers.count", self.count, least=1)
        for name, value in (("cpus", self.cpus), ("gpus", self.gpus)):
            if value is None:
                continue
            in_range(name, value, least=0, whole=False, of="Workers")
            if value > 1 and value != int(value):
                raise InputError(
                    f"Workers.{name} is {value}, expected a whole number, or a part of 1"
                )


@dataclass(frozen=True, kw_only=True)
class Pool:
    """`Workers` with every number settled."""

    count: int
    cpus: float
    gpus: float


def settled(asked: Workers, resources: Mapping[str, float], *, growing: bool) -> Pool:
    """Choose what was left open.

    Args:
        asked: What the caller said.
        resources: What the cluster has: {"CPU": 8.0, "GPU": 1.0}.
        growing: Whether the cluster may have more later.

    Raises:
        InputError: More is asked for than there is.

    Examples:
        >>> settled(Workers(), {"CPU": 16.0}, growing=False)
        Pool(count=4, cpus=4, gpus=0)
        >>> settled(Workers(), {"CPU": 16.0, "GPU": 2.0}, growing=False)
        Pool(count=2, cpus=1, gpus=1)
        >>> settled(Workers(count=2), {"CPU": 2.0}, growing=False)
        Pool(count=2, cpus=1, gpus=0)
    """
    cores, cards = resources.get("CPU", 0.0), resources.get("GPU", 0.0)
    gpus = asked.gpus if asked.gpus is not None else (1 if cards else 0)
    cpus = asked.cpus if asked.cpus is not None else _share(asked.count, cores, beside_gpu=gpus > 0)
    room = min(
        _times(cores, cpus) if cpus else _CORES * max(int(cores), 1),
        _times(cards, gpus) if gpus else 10**6,
    )
    count = asked.count if asked.count is not None else max(room, 1)
    if count > room and not growing:
        raise InputError(
            f"{count} workers with {cpus:g} CPUs and {gpus:g} GPUs each were asked for, and there "
            f"are {cores:g} CPUs and {cards:g} GPUs: ask for fewer"
        )
    return Pool(count=count, cpus=cpus, gpus=gpus)


def _times(whole: float, part: float) -> int:
    """How often a part fits, whatever binary fractions make of a tenth."""
    return int(whole / part + 1e-9)


def _share(count: int | None, cores: float, *, beside_gpu: bool) -> float:
    if beside_gpu:
        return 1
    return max(1, min(_CORES, int(cores // (count or 1))))


def leaving_one_cpu(pool: Pool, resources: Mapping[str, float]) -> Pool:
    """The same workers, claiming less where they would claim every CPU there is.

    The tasks that make a dataset want a CPU, and would wait for it without end.

    Examples:
        >>> leaving_one_cpu(Pool(count=2, cpus=1, gpus=0), {"CPU": 2.0})
        Pool(count=2, cpus=0.5, gpus=0)
        >>> leaving_one_cpu(Pool(count=2, cpus=4, gpus=0), {"CPU": 8.0})
        Pool(count=2, cpus=3, gpus=0)
        >>> leaving_one_cpu(Pool(count=2, cpus=1, gpus=1), {"CPU": 8.0})
        Pool(count=2, cpus=1, gpus=1)
    """
    cores = resources.get("CPU", 0.0)
    if not cores - 1 < pool.count * pool.cpus <= cores:
        return pool
    share = max(cores - 1, 0) / pool.count
    return replace(pool, cpus=int(share) if share >= 1 else int(share * 100) / 100)
