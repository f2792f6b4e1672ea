#!/usr/bin/env python3
"""confluent-kafka: a producer that logs in with tokens, again and again.

log_in_confluent.py BOOTSTRAP SECONDS TOKEN… : produces for so long; each token is valid until the
time behind its @. Prints how many records were acknowledged, and how often a token was asked for.
"""

import sys
import time

from confluent_kafka import Producer

bootstrap, seconds, *tokens = sys.argv[1:]
asked = 0


def give(_: str) -> tuple[str, float]:
    global asked
    asked += 1
    token, _, until = tokens[min(asked, len(tokens)) - 1].partition("@")
    return token, float(until)


errors = []
producer = Producer(
    {
        "bootstrap.servers": bootstrap,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "OAUTHBEARER",
        "oauth_cb": give,
        "error_cb": errors.append,
        "message.timeout.ms": 10_000,
    }
)
acknowledged = 0


def count(error: object, _: object) -> None:
    global acknowledged
    acknowledged += error is None


until = time.monotonic() + float(seconds)
while True:
    producer.produce("t", b"x", on_delivery=count)
    producer.flush(5)
    if time.monotonic() > until or errors:
        break
    time.sleep(0.1)
print(acknowledged, asked, "; ".join(map(str, errors)))
