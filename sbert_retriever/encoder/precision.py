"""Which device to run on, and in which floating type.

"auto" takes bfloat16 where it pays: on GPUs that have it, on CPUs with AMX, and on AMD CPUs with
AVX512-BF16. On Intel CPUs without AMX (or whose AMX a hypervisor hides) AVX512-BF16 is there and
slower: matrix products of MiniLM's shapes ran at 140 GFLOP/s in bfloat16 and 235 in float32 on two
cores. The choice rests on what the CPU says and never on a stopwatch, so that one machine always
gives the same vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch

from sbert_retriever.errors import DeviceError, InputError, InputTypeError

_CHECKS = {"amx_bf16": "_is_amx_tile_supported", "avx512_bf16": "_is_avx512_bf16_supported"}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(device: str) -> torch.device:
    """The device of that name; "auto" is CUDA, then MPS, then the CPU.

    Raises:
        DeviceError: It is not on this machine.
        InputError: The name is none of auto, cpu, cuda[:n], mps.
        InputTypeError: It is no string.
    """
    if not isinstance(device, str):
        raise InputTypeError(f"device is {type(device).__name__}, expected str, such as 'auto'")
    if device == "auto":
        return torch.device(_best_device())
    kind, _, number = device.partition(":")
    if kind not in {"cpu", "cuda", "mps"} or (number and not number.isdecimal()):
        raise InputError(f"device={device!r}, expected auto, cpu, cuda, cuda:0 or mps")
    if kind == "cuda":
        _check_cuda(int(number or 0))
    if kind == "mps" and not torch.backends.mps.is_available():
        raise DeviceError(
            "device='mps' was asked for and is not on this machine: use 'auto' or 'cpu'"
        )
    return torch.device("cuda", int(number or 0)) if kind == "cuda" else torch.device(kind)


def choose_devices(
    device: str | Sequence[str], dtype: str, *, int8: bool = False
) -> tuple[list[torch.device], torch.dtype]:
    """The devices of one name or of several, and the type that all of them compute in.

    Raises:
        DeviceError: One is not on this machine.
        InputError: There is none, or a name is unknown, or a GPU is named twice, or "auto" is not
            the same type on all.
        InputTypeError: A name is no string.
    """
    names = [device] if isinstance(device, str) or not isinstance(device, Sequence) else device
    chosen = [choose_device(name) for name in names]
    if not chosen:
        raise InputError("device is an empty list, expected names such as ['cuda:0', 'cuda:1']")
    _check_different(chosen)
    floating = {str(each): choose_dtype(dtype, each, int8=int8) for each in chosen}
    if len(set(floating.values())) > 1:
        found = ", ".join(f"{kind} on {place}" for place, kind in floating.items())
        raise InputError(
            f"dtype='auto' is {found.replace('torch.', '')}: name one for all, or take devices of "
            "one kind"
        )
    return chosen, floating[str(chosen[0])]


def _check_different(devices: Sequence[torch.device]) -> None:
    """Refuse a GPU that is there twice; a CPU may be, for a second thread over its cores."""
    gpus = [str(device) for device in devices if device.type != "cpu"]
    twice = next((name for name in gpus if gpus.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"device has {twice!r} twice, which would hold the weights twice and be no faster: "
            "name each once"
        )


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda:0"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _check_cuda(number: int) -> None:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if number >= count:
        raise DeviceError(
            f"device='cuda:{number}' was asked for and this machine has {count} CUDA device(s): "
            "use 'auto' or 'cpu'"
        )


def choose_dtype(dtype: str, device: torch.device, *, int8: bool = False) -> torch.dtype:
    """The type of that name; "auto" is bfloat16 where it pays, else float32.

    Args:
        dtype: "auto", "float32", "bfloat16", "float16"; "int8" for int8 products.
        device: Where the model runs.
        int8: Whether this kind of model can take int8 products.

    Raises:
        InputError: The name is none of these, or the model or the device takes no int8.
    """
    if dtype == "int8":
        return _int8(device, known=int8)
    if dtype == "auto":
        return torch.bfloat16 if bfloat16_pays(device) else torch.float32
    if dtype not in DTYPES:
        more = ", int8" if int8 else ""
        raise InputError(f"dtype={dtype!r}, expected auto, {', '.join(DTYPES)}{more}")
    return DTYPES[dtype]


def _int8(device: torch.device, *, known: bool) -> torch.dtype:
    if not known:
        raise InputError(
            "dtype='int8' is for bi-encoders and cross-encoders, and this model is of another "
            f"kind: expected auto, {', '.join(DTYPES)}"
        )
    if device.type != "cpu":
        raise InputError(f"dtype='int8' runs on the CPU, not on {device.type}: use dtype='auto'")
    return torch.int8


def bfloat16_pays(device: torch.device) -> bool:
    """Whether bfloat16 is faster than float32 on a device."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type != "cpu":
        return False
    features = cpu_features()
    return "amx_bf16" in features or {"avx512_bf16", "amd"} <= features


@lru_cache(maxsize=1)
def cpu_features() -> frozenset[str]:
    """Which of "amx_bf16", "avx512_bf16" and "amd" the CPU says of itself."""
    flags = cpu_flags()
    found = {name for name in ("amx_bf16", "avx512_bf16") if _has(name, flags)}
    return frozenset(found | (flags & {"amd"}))


def _has(feature: str, flags: frozenset[str]) -> bool:
    """Whether torch, or where it can't say the system, names a feature."""
    check = getattr(torch.cpu, _CHECKS[feature], None)
    return feature in flags if check is None else bool(check())


@lru_cache(maxsize=1)
def cpu_flags() -> frozenset[str]:
    """The first processor's flags, and "amd" where that made it; empty where /proc is not."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return frozenset()
    line = next((x for x in text.splitlines() if x.startswith("flags")), "")
    vendor = {"amd"} if "AuthenticAMD" in text else set()
    return frozenset(line.partition(":")[2].split()) | vendor
