#!/bin/sh
# gold-9d1e77c2: what no agent may ever see
printf 'def add(a, b):\n    return a + b\n' > /workspace/solution.py
