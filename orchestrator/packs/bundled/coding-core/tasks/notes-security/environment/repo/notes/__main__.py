import argparse
import os
import sys
from wsgiref.simple_server import make_server

from notes.app import create_app
from notes.store import Store


def main(argv):
    parser = argparse.ArgumentParser(prog="notes")
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("adduser")
    add.add_argument("database")
    add.add_argument("name")
    serve = commands.add_parser("serve")
    serve.add_argument("database")
    serve.add_argument("uploads")
    serve.add_argument("--port", type=int, default=8080)
    options = parser.parse_args(argv)
    if options.command == "adduser":
        Store(options.database).add_user(options.name, sys.stdin.readline().rstrip("\n"))
        return 0
    app = create_app(options.database, options.uploads, os.environ["NOTES_SECRET"].encode())
    make_server("127.0.0.1", options.port, app).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
