"""Which device to run on, and in which floating type.

"auto" takes bfloat16 where it pays: on GPUs that have it, and on CPUs whose matrix
multiplication is faster in it. AMX always is. With AVX512-BF16 alone it depends on the CPU and
the hypervisor, so that one is measured, once a process.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path

import torch

from sbert_retriever.errors import DeviceError, InputError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_WORTH_IT = 1.3
"""How many times faster bfloat16 must be: far enough from 1 that noise does not decide."""


def choose_device(device: str) -> torch.device:
    """The device of that name; "auto" is CUDA, then MPS, then the CPU.

    Raises:
        DeviceError: It is not on this machine.
        InputError: The name is none of auto, cpu, cuda[:n], mps.
    """
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


def choose_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """The floating type of that name; "auto" is bfloat16 where it pays, else float32.

    Raises:
        InputError: The name is none of auto, float32, bfloat16, float16.
    """
    if dtype == "auto":
        return torch.bfloat16 if bfloat16_pays(device) else torch.float32
    if dtype not in DTYPES:
        raise InputError(f"dtype={dtype!r}, expected auto, {', '.join(DTYPES)}")
    return DTYPES[dtype]


def bfloat16_pays(device: torch.device) -> bool:
    """Whether bfloat16 is faster than float32 on a device."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type != "cpu":
        return False
    features = cpu_features()
    if "amx_bf16" in features:
        return True
    return "avx512_bf16" in features and _measured_speedup() >= _WORTH_IT


@lru_cache(maxsize=1)
def cpu_features() -> frozenset[str]:
    """Which of "amx_bf16" and "avx512_bf16" the CPU has."""
    checks = {
        "amx_bf16": getattr(torch.cpu, "_is_amx_tile_supported", None),
        "avx512_bf16": getattr(torch.cpu, "_is_avx512_bf16_supported", None),
    }
    if all(checks.values()):
        return frozenset(name for name, check in checks.items() if check is not None and check())
    return frozenset(name for name in checks if name in _proc_flags())


def _proc_flags() -> frozenset[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return frozenset()
    line = next((x for x in text.splitlines() if x.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())


@lru_cache(maxsize=1)
def _measured_speedup() -> float:
    """How many times faster a layer's matrix product is in bfloat16 than in float32.

    The best of several interleaved runs: a busy machine slows some of them, never all.
    """
    best = {torch.float32: float("inf"), torch.bfloat16: float("inf")}
    operands = {t: (torch.ones(512, 384, dtype=t), torch.ones(1536, 384, dtype=t)) for t in best}
    with torch.inference_mode():
        for _ in range(6):
            for dtype, (left, right) in operands.items():
                start = time.perf_counter()
                torch.nn.functional.linear(left, right)
                best[dtype] = min(best[dtype], time.perf_counter() - start)
    return best[torch.float32] / best[torch.bfloat16]
