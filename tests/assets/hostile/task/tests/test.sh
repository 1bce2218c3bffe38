#!/bin/sh
# canary-5b1f0c88: what no agent may ever see
cd / && exec /usr/bin/python3 -I -B /tests/judge.py
