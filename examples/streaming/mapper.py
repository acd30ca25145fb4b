#!/usr/bin/env python3
"""Reads lines and prints `word TAB 1` for each word. Each line is processed independently of the others."""

import re
import sys

# The separators of Hadoop's WordCount: space, tab, newline, carriage return and form feed.
WORD = re.compile(rb"[^ \t\n\r\f]+")

for line in sys.stdin.buffer:
    for word in WORD.findall(line):
        sys.stdout.buffer.write(word + b"\t1\n")
