"""Command line: `python3 -m parcelkit quotes GRAMS COUNTRY LxWxH [--value EUROS]`, `python3 -m parcelkit carriers`."""

import argparse
import sys
from decimal import Decimal

from parcelkit.parcel import Parcel
from parcelkit.quotes import quotes

TITLES = {
    "swift": "Swift Parcel Service",
    "polar": "Polar Post",
    "harbor": "Harbor Freight Line",
    "mule": "Mule",
}


def main(argv):
    parser = argparse.ArgumentParser(prog="parcelkit")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("quotes")
    command.add_argument("grams", type=int)
    command.add_argument("country")
    command.add_argument("size")
    command.add_argument("--value", type=Decimal, default=Decimal(0))
    commands.add_parser("carriers")
    options = parser.parse_args(argv)
    if options.command == "carriers":
        for code in sorted(TITLES):
            print(f"{code:8}{TITLES[code]}")
        return 0
    length, width, height = (int(side) for side in options.size.split("x"))
    parcel = Parcel(options.grams, options.country, length, width, height, int(options.value * 100))
    for cents, code in quotes(parcel):
        print(f"{cents / 100:8.2f}  {TITLES[code]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
