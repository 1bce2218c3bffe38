"""Tools that the provider would run, by an allow-list of those that the client runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from workers.relay.wire.errors import BadRequestError
from workers.relay.wire.facts import ProviderTool
from workers.relay.wire.family import Family

_OPENAI_CLIENT_RUN: Final = frozenset({"function", "custom", "local_shell"})
_ANTHROPIC_CLIENT_RUN: Final = re.compile(r"(?:bash|text_editor|memory|computer)_\d+")
_GOOGLE_CLIENT_RUN: Final = frozenset({"functionDeclarations", "function_declarations"})

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_A_WORD: Final = re.compile(r"[^a-z0-9]+")
_VERSION: Final = re.compile(r"_(?:preview(?:_.*)?|\d{8}|\d{4}_\d{2}_\d{2})$")


def kind_of(name: str) -> str:
    """A provider's tool name as policies spell it: lower snake case, without date or preview suffix."""
    words = _NOT_A_WORD.sub("_", _CAMEL.sub("_", name).lower()).strip("_")
    return _VERSION.sub("", words) or "unnamed"


def _list(value: Any, what: str) -> list[dict[str, Any]]:
    """A list of objects, empty for null; raises `BadRequestError` otherwise."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BadRequestError(f"{what} is not a list of objects")
    return value


def _type(tool: dict[str, Any]) -> str | None:
    kind = tool.get("type")
    if kind is not None and not isinstance(kind, str):
        raise BadRequestError("the type of a tool is not a string")
    return kind


def _max_uses(tool: dict[str, Any]) -> int | None:
    value = tool.get("max_uses")
    if value is not None and (type(value) is not int or value < 0):
        raise BadRequestError("max_uses of a tool is not a whole number")
    return value


def anthropic_provider_run(tool: dict[str, Any]) -> bool:
    """Whether Anthropic would run the tool; its `type` decides, a schema beside it changes nothing."""
    kind = _type(tool)
    if kind is None or kind == "custom":
        return "input_schema" not in tool
    return _ANTHROPIC_CLIENT_RUN.fullmatch(kind) is None


def _openai_tools(tools: list[dict[str, Any]]) -> Iterator[ProviderTool]:
    for tool in tools:
        kind = _type(tool)
        if kind == "namespace":
            yield from _openai_tools(_list(tool.get("tools"), "tools of a namespace"))
        elif kind not in _OPENAI_CLIENT_RUN and not (
            kind == "tool_search" and tool.get("execution") == "client"
        ):
            yield ProviderTool(kind_of(kind or ""), _max_uses(tool))


def _chat_options(body: dict[str, Any]) -> Iterator[ProviderTool]:
    """Searches that OpenAI and compatible providers switch on by a field of their own."""
    if body.get("web_search_options") is not None:
        yield ProviderTool("web_search", None)
    search = body.get("search_parameters")
    if search is not None and not (isinstance(search, dict) and search.get("mode") == "off"):
        yield ProviderTool("web_search", None)
    for plugin in _list(body.get("plugins"), "plugins"):
        name = plugin.get("id")
        yield ProviderTool(kind_of(name if isinstance(name, str) else ""), None)


def _found_later(body: dict[str, Any]) -> Iterator[ProviderTool]:
    """Tools that come as items of a Responses input: by a tool search or as `additional_tools`."""
    items = body.get("input")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            yield from _openai_tools(_list(item.get("tools"), "tools of an input item"))


def _anthropic_tools(body: dict[str, Any]) -> Iterator[ProviderTool]:
    for tool in _list(body.get("tools"), "tools"):
        if anthropic_provider_run(tool):
            yield ProviderTool(kind_of(_type(tool) or ""), _max_uses(tool))
    yield from (ProviderTool("mcp", None) for _ in _list(body.get("mcp_servers"), "mcp_servers"))
    if body.get("container") is not None:
        yield ProviderTool("container", None)


def _google_tools(body: dict[str, Any]) -> Iterator[ProviderTool]:
    for tool in _list(body.get("tools"), "tools"):
        for name, value in tool.items():
            if name not in _GOOGLE_CLIENT_RUN and value is not None:
                yield ProviderTool(kind_of(name), None)


def provider_tools(family: Family, body: dict[str, Any]) -> tuple[ProviderTool, ...]:
    """Every tool of the request that is not known to be run by the client.

    Raises `BadRequestError` when the tools are not a list of objects.
    """
    if family is Family.GOOGLE:
        return tuple(_google_tools(body))
    if family is Family.ANTHROPIC:
        return tuple(_anthropic_tools(body))
    found = [*_openai_tools(_list(body.get("tools"), "tools")), *_chat_options(body)]
    if family is Family.OPENAI_RESPONSES:
        found.extend(_found_later(body))
    return tuple(found)
