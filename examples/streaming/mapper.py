#!/usr/bin/env python3
"""Reads lines, prints `word TAB 1` for each word. Each line is treated by itself."""

import sys

for line in sys.stdin.buffer:
    for word in line.split():
        sys.stdout.buffer.write(word + b"\t1\n")
