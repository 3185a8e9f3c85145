"""Vectors and payload to and from Qdrant: embedded, in memory, or on a server."""
