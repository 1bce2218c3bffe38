"""The wire formats that the relay speaks."""

from __future__ import annotations

from enum import StrEnum


class Family(StrEnum):
    """One wire format: where the model, the limits and the usage stand in it."""

    OPENAI_CHAT = "openai-chat"
    OPENAI_RESPONSES = "openai-responses"
    OPENAI_EMBEDDINGS = "openai-embeddings"
    ANTHROPIC = "anthropic-messages"
    GOOGLE = "google-generate-content"
