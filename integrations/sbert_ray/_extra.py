"""What has to be installed before anything else is loaded."""

from __future__ import annotations

from importlib import import_module

from sbert_retriever.errors import MissingExtraError


def need_ray() -> None:
    """Check that Ray Data can be used.

    Raises:
        MissingExtraError: It, or what it needs, is not installed.
    """
    _need("ray", purpose="encode with many workers")
    need_pyarrow()
    _need("pandas", purpose="encode with many workers")


def need_pyarrow() -> None:
    """Check that parquet can be read and written.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    _need("pyarrow", purpose="read and write parquet")


def _need(package: str, *, purpose: str) -> None:
    try:
        import_module(package)
    except ImportError as error:
        raise MissingExtraError(package, extra="ray", purpose=purpose) from error
