"""The files that are laid over the agent's image before its container is made."""

from __future__ import annotations

from orchestrator.attempts import AttemptOrder
from workers.adapters.launch import HOME, INSTRUCTION, MCP_CONFIG, OUT, Launch, mcp_config
from workers.sandbox.tars import Owner, TarBuilder


def agent_files(order: AttemptOrder, launch: Launch, owner: Owner) -> bytes:
    """One archive: what the contract promises an agent (docs/agents.md)."""
    tar = TarBuilder()
    tar.folder("/assize", 0o755)
    tar.file(INSTRUCTION, order.instruction.encode(), 0o444)
    tar.file(MCP_CONFIG, mcp_config(order), 0o444)
    tar.folder(OUT, 0o755, owner)
    tar.folder(HOME, 0o700, owner)
    tar.folder("/logs", 0o755)
    tar.folder("/logs/agent", 0o755, owner)
    tar.folder("/logs/artifacts", 0o755, owner)
    if launch.solution:
        tar.tree(order.task_dir / "solution", order.solution_files, "/solution", owner, private=True)
    return tar.bytes()
