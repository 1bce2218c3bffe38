"""Texts with placeholders, `{{model}}`: names are checked, values put in without logic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_PLACEHOLDER: Final = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")


def placeholders(texts: Iterable[str]) -> frozenset[str]:
    """The names that `texts` use."""
    return frozenset(name for text in texts for name in _PLACEHOLDER.findall(text))


def filled(text: str, values: Mapping[str, str]) -> str:
    """`text` with every placeholder replaced, once: a value is never read as a template.

    Raises `KeyError` for a name without a value, which a checked template does not have.
    """
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)
