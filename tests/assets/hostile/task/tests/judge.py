"""The hidden test: a parent that never imports the agent's code, and a child that does nothing else.

The child runs as a user of its own, with an empty environment, bounded time and memory, and gets its
questions as JSON with a word that is drawn for this one question. The parent compares plain integers and
alone can write the verdict. canary-5b1f0c88
"""

from __future__ import annotations

import json
import os
import resource
import secrets
import signal
import stat
import subprocess
import sys

SOLUTION = "/workspace/solution.py"
VERDICT = "/logs/verifier/reward.txt"
NOBODY = 65534
LIMIT_BYTES = 64 << 10
QUESTIONS = 3
CHILD_S = 4
CHILD_MEMORY_BYTES = 96 << 20
CHILD = """
import json, sys
asked = json.loads(sys.stdin.readline())
space = {"__name__": "solution"}
exec(compile(asked["code"], "solution.py", "exec"), space)
answer = space["add"](asked["a"], asked["b"])
sys.stdout.write(json.dumps({"word": asked["word"], "answer": answer}))
"""


def solution() -> str:
    """The deliverable: a small regular file, opened without following a link or waiting for a writer."""
    handle = os.open(SOLUTION, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("not a regular file")
        data = file.read(LIMIT_BYTES + 1)
    if len(data) > LIMIT_BYTES:
        raise ValueError("too large")
    return data.decode("utf-8")


def become_nobody() -> None:
    """In the child, before anything of the agent is in it."""
    resource.setrlimit(resource.RLIMIT_AS, (CHILD_MEMORY_BYTES, CHILD_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (16, 16))
    os.setsid()
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def ask(code: str, a: int, b: int) -> object:
    """What add(a, b) answers; raises for silence, noise and anything that is not this answer."""
    word = secrets.token_hex(16)
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
        close_fds=True,
        preexec_fn=become_nobody,
    )
    question = json.dumps({"code": code, "a": a, "b": b, "word": word}) + "\n"
    try:
        said, _ = child.communicate(question.encode(), CHILD_S)
    finally:
        child.kill()
        child.wait()
    found = json.loads(said[:LIMIT_BYTES])
    if not secrets.compare_digest(str(found["word"]), word):
        raise ValueError("not the answer to this question")
    return found["answer"]


def passes() -> bool:
    """Whether every drawn question is answered by the very integer."""
    try:
        code = solution()
        for _ in range(QUESTIONS):
            a, b = secrets.randbelow(10**9), secrets.randbelow(10**9)
            answer = ask(code, a, b)
            if type(answer) is not int or answer != a + b:
                return False
    except (OSError, ValueError, KeyError, TypeError, RecursionError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"no answer: {type(error).__name__}\n")
        return False
    return True


def main() -> None:
    """One verdict, written by the parent after the last child is dead."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    passed = passes()
    with open(VERDICT, "x", encoding="ascii") as file:
        file.write("1\n" if passed else "0\n")


main()
