"""The embedded engine: one shard, and the conversions to and from its classes.

Nothing outside `index/embedded.py` and this room imports qdrant_edge.
"""
