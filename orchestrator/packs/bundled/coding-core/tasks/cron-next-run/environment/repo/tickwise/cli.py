"""`python3 -m tickwise`: next runs of one expression, or the agenda of a job file."""

import argparse
import sys
from datetime import datetime
from pathlib import Path

from tickwise.errors import TickwiseError
from tickwise.jobs import agenda, load_jobs
from tickwise.schedule import parse


def _moment(text):
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not an ISO time") from error


def build_parser():
    parser = argparse.ArgumentParser(prog="tickwise")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, argument in (("next", "expression"), ("agenda", "file")):
        command = commands.add_parser(name)
        command.add_argument(argument)
        command.add_argument("--after", type=_moment, required=True)
        command.add_argument("--count", type=int, default=1)
    return parser


def run(argv, out=None):
    """Run the command line; returns the exit code."""
    out = out or sys.stdout
    options = build_parser().parse_args(argv)
    try:
        if options.command == "next":
            for moment in parse(options.expression).upcoming(options.after, options.count):
                out.write(moment.isoformat(timespec="minutes") + "\n")
        else:
            jobs = load_jobs(Path(options.file).read_text(encoding="utf-8"))
            for moment, name in agenda(jobs, options.after, options.count):
                out.write(f"{moment.isoformat(timespec='minutes')} {name}\n")
    except TickwiseError as error:
        sys.stderr.write(f"tickwise: {error}\n")
        return 2
    return 0
