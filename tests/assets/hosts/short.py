"""The program itself with a drill's times: `python short.py '{times}' ARGUMENTS...`; nothing else differs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace

from orchestrator.cli.main import main
from orchestrator.engine.celery.times import Times

if __name__ == "__main__":
    shortened = replace(Times(), **json.loads(sys.argv.pop(1)))
    Times.__init__.__defaults__ = tuple(asdict(shortened).values())
    main()
