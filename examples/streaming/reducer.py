#!/usr/bin/env python3
"""Reads `word TAB count` lines in order of words, prints each word with its sum. Can also be the combiner."""

import sys
from itertools import groupby

pairs = (line.rstrip(b"\n").split(b"\t", 1) for line in sys.stdin.buffer)
for word, group in groupby(pairs, key=lambda pair: pair[0]):
    total = sum(int(count) for _, count in group)
    sys.stdout.buffer.write(b"%s\t%d\n" % (word, total))
