"""One pack in detail, as data and as lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from orchestrator.cli.output import DASH, cell, dash, duration, facts, table_lines
from orchestrator.packs.pack import MB, Pack, PackTask

_CAPS: Final = (
    "agent_wall_ms",
    "grade_wall_ms",
    "memory_bytes",
    "cpus_milli",
    "pids",
    "output_bytes",
    "artifact_bytes",
)


def details(pack: Pack) -> dict[str, Any]:
    """Everything that `assize packs show` shows."""
    manifest, rule = pack.manifest, pack.manifest.pass_rule
    return {
        "name": manifest.name,
        "version": manifest.version,
        "title": manifest.title,
        "description": manifest.description or None,
        "state": "implicit" if pack.implicit else manifest.state,
        "digest": pack.digest,
        "path": str(pack.root),
        "licenses": [one.model_dump(mode="json") for one in manifest.licenses],
        "sources": [one.model_dump(mode="json") for one in manifest.sources],
        "judge": manifest.judge,
        "grading": manifest.grading,
        "agent_user": manifest.agent_user,
        "tries_per_task": manifest.tries_per_task,
        "tries": manifest.tries_per_task * len(pack.tasks),
        "pass_rule": {"key": rule.key, "at_least": rule.at_least, "max": rule.max},
        "files": len(pack.lock.files),
        "tasks": [_task(pack, task) for task in pack.tasks],
    }


def _task(pack: Pack, task: PackTask) -> dict[str, Any]:
    entry, caps = task.entry, pack.caps(task)
    return {
        "task": task.id,
        "digest": task.record_digest,
        "difficulty": entry.difficulty,
        "use_cases": list(entry.use_cases),
        "reference_minutes": entry.reference_minutes,
        "caps": {name: getattr(caps, name) for name in _CAPS},
        "disk_bytes": pack.disk_bytes(task),
        "grading": pack.grading(task),
        "agent_user": pack.agent_user(task),
        "refusals": [{"code": str(one.code), "message": one.message} for one in pack.refusals(task)],
        "deviations": [{"code": str(one.code), "message": one.message} for one in pack.deviations(task)],
    }


def detail_lines(data: Mapping[str, Any], call: str) -> list[str]:
    """The same for a person; `call` begins the commands that are shown."""
    rule, tasks = data["pass_rule"], data["tasks"]
    refused = [task for task in tasks if task["refusals"]]
    lines = [cell(f"{data['name']}@{data['version']}  {data['title']}")]
    lines += facts(
        [
            ("digest", data["digest"]),
            ("state", data["state"]),
            ("licences", "; ".join(_licence(one) for one in data["licenses"])),
            ("sources", "; ".join(_source(one) for one in data["sources"]) or DASH),
            ("judge, grading", f"{data['judge']}, {data['grading']}"),
            ("pass rule", f"{rule['key']} at least {rule['at_least']}, at most {rule['max']}"),
            ("tries", f"{len(tasks)} tasks x {data['tries_per_task']} tries = {data['tries']}"),
            ("runnable", f"{len(tasks) - len(refused)} of {len(tasks)} tasks"),
            ("files", f"{data['files']} pinned, in {data['path']}"),
        ]
    )
    if data["description"]:
        lines += ["", *(cell(line) for line in data["description"].strip().splitlines())]
    lines += ["", *_task_table(tasks)]
    for task in refused:
        lines += [
            cell(f"refused: {task['task']}: [{one['code']}] {one['message']}") for one in task["refusals"]
        ]
    lines += _deviations(tasks)
    lines.append(
        cell(f"next: {call} packs check {data['name'] if data['state'] != 'implicit' else data['path']}")
    )
    return lines


def _licence(one: Mapping[str, Any]) -> str:
    return f"{one['spdx']} ({one['scope']})" if one["scope"] != "**" else str(one["spdx"])


def _source(one: Mapping[str, Any]) -> str:
    return f"{one['url']} {one['commit'] or one['sha256']}"


def _task_table(tasks: list[dict[str, Any]]) -> list[str]:
    names = (
        "task",
        "difficulty",
        "use cases",
        "agent",
        "grade",
        "memory",
        "disk",
        "cpus",
        "runs as",
        "runnable",
    )
    return table_lines(names, [_task_cells(task) for task in tasks])


def _task_cells(task: Mapping[str, Any]) -> tuple[str, ...]:
    caps = task["caps"]
    return (
        task["task"],
        dash(task["difficulty"]),
        ", ".join(task["use_cases"]) or DASH,
        duration(caps["agent_wall_ms"]),
        duration(caps["grade_wall_ms"]),
        f"{caps['memory_bytes'] // MB} MiB",
        DASH if task["disk_bytes"] is None else f"{task['disk_bytes'] // MB} MiB",
        f"{caps['cpus_milli'] / 1000:g}",
        task["agent_user"] or "image's user",
        "NO" if task["refusals"] else "yes",
    )


def _deviations(tasks: list[dict[str, Any]]) -> list[str]:
    """Each deviation once, with the tasks that it concerns."""
    by_text: dict[tuple[str, str], list[str]] = {}
    for task in tasks:
        for one in task["deviations"]:
            by_text.setdefault((one["code"], one["message"]), []).append(task["task"])
    lines = []
    for (code, message), names in sorted(by_text.items()):
        where = "all tasks" if len(names) == len(tasks) else ", ".join(names)
        lines.append(cell(f"deviation: [{code}] {message} ({where})"))
    return lines
