"""How long a field of a csv file may be."""

from __future__ import annotations

import csv

_LONGEST = 2**31 - 1


def allow_long_fields() -> None:
    """Let csv read fields longer than 131,072 characters; of the whole process, by its nature."""
    csv.field_size_limit(_LONGEST)
