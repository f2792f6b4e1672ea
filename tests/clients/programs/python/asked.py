# mypy: ignore-errors
"""The arguments of every program, and its output: the same for all languages.

    --bootstrap 127.0.0.1:9092 --mode assign --pin 0.9 --wait 8 --topic NAME:PARTITIONS:COUNT ...

A program reads one topic after the other: from the beginning until it has COUNT records, or for so
many seconds. Then it continues for a moment, to find records that should not be there. Each record
is a line: {"topic","p","o","t","tt","k","v","h"}, keys and values in hexadecimal; what a client
cannot tell is left out. Behind each topic comes {"topic","end"}: `count`, `time`, or the error."""

import argparse
import json
import logging
import os
import sys
import threading
import time
import traceback

GRACE = 0.25  # seconds
TIMESTAMP_TYPES = {0: "CreateTime", 1: "LogAppendTime"}


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--mode", required=True)
    parser.add_argument("--pin", default="default")
    parser.add_argument("--wait", type=float, default=8.0)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--acks", default="1")
    parser.add_argument("--group", default="g")
    parser.add_argument("--topic", action="append", required=True)
    return parser.parse_args()


class Reading:
    """One topic: when to stop, and the lines."""

    def __init__(self, name, partitions, count, wait):
        self.name, self.partitions, self.count = name, partitions, count
        self.wait = wait
        self.seen = 0
        self.started = time.monotonic()
        self.complete = None

    @property
    def goes_on(self):
        now = time.monotonic()
        if self.seen >= self.count and self.complete is None:
            self.complete = now
        if self.complete is not None:
            return now - self.complete < GRACE and self.seen < 2 * self.count + 10
        return now - self.started < self.wait

    def record(self, partition, offset, key, value, timestamp=None, kind=None, headers=None):
        self.seen += 1
        line = {"topic": self.name, "p": partition, "o": offset}
        line["k"] = None if key is None else bytes(key).hex()
        line["v"] = None if value is None else bytes(value).hex()
        if timestamp is not None:
            line["t"] = timestamp
        if kind is not None:
            line["tt"] = TIMESTAMP_TYPES.get(kind, "NoTimestampType")
        if headers is not None:
            line["h"] = [[name, None if v is None else bytes(v).hex()] for name, v in headers]
        sys.stdout.write(json.dumps(line) + "\n")


def read_all(asked, read):
    """Calls `read(reading)` for each topic; nothing outlasts its time by much."""
    for topic in asked.topic:
        name, partitions, count = topic.rsplit(":", 2)
        reading = Reading(name, int(partitions), int(count), asked.wait)
        guard = threading.Timer(asked.wait + 10, give_up, (reading,))
        guard.daemon = True
        guard.start()
        try:
            read(reading)
            say_end(reading, "count" if reading.seen >= reading.count else "time")
        except Exception as error:
            traceback.print_exc()
            say_end(reading, f"{type(error).__name__}: {error}"[:300])
        guard.cancel()
    sys.stdout.flush()
    os._exit(0)  # some clients' threads would live on


def say_end(reading, how):
    sys.stdout.write(json.dumps({"topic": reading.name, "end": how}) + "\n")
    sys.stdout.flush()


def give_up(reading):
    say_end(reading, "hangs")
    os._exit(3)


def produce_all(asked, send):
    """Calls `send(topic, records)` with what standard input says: {"topic","k","v"} a line."""
    records = {}
    for line in sys.stdin:
        record = json.loads(line)
        key, value = (None if record[k] is None else bytes.fromhex(record[k]) for k in "kv")
        records.setdefault(record["topic"], []).append((key, value))
    guard = threading.Timer(asked.wait + 20, os._exit, (3,))
    guard.daemon = True
    guard.start()
    for topic, pairs in records.items():
        try:
            send(topic, pairs)
            end = "count"
        except Exception as error:
            traceback.print_exc()
            end = f"{type(error).__name__}: {error}"[:300]
        sys.stdout.write(json.dumps({"topic": topic, "end": end}) + "\n")
    sys.stdout.flush()
    os._exit(0)


def run(read, send):
    """Does what the arguments ask for, by `read(asked, reading)` or `send(asked, topic, pairs)`."""
    logging.basicConfig(level=logging.WARNING)
    asked = arguments()
    if asked.mode == "produce":
        produce_all(asked, lambda topic, pairs: send(asked, topic, pairs))
    read_all(asked, lambda reading: read(asked, reading))
