"""The service: a collection over HTTP, for programs and for people, and as tools over MCP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbert_retriever.serve.app import create_app
    from sbert_retriever.serve.run import serve
    from sbert_retriever.serve.service import Service, open_service
    from sbert_retriever.serve.settings import ServeSettings
else:
    _HOMES = {
        "create_app": "sbert_retriever.serve.app",
        "serve": "sbert_retriever.serve.run",
        "Service": "sbert_retriever.serve.service",
        "open_service": "sbert_retriever.serve.service",
        "ServeSettings": "sbert_retriever.serve.settings",
    }

    def __getattr__(name: str) -> Any:
        """Load a public name from its module."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)


__all__ = ["ServeSettings", "Service", "open_service", "create_app", "serve"]
