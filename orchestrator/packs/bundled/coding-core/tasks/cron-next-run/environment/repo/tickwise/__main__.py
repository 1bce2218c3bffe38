import sys

from tickwise.cli import run

sys.exit(run(sys.argv[1:]))
