"""The same requests to Kafka 3.9.1 and to `serve --writable`, kept in step: do they answer alike?

Or to Kafka and to the gateway in front of Kafka 4.4.0.

- `identities.py`: what each server calls the same thing
- `operations.py`: requests, made from the definitions of the messages
- `values.py`, `batches.py`, `envelope.py`: what their fields, their records and their frames are
- `logins.py`: logins, with right, wrong and odd frames; `throttles.py`: clients above their rates
- `servers.py`: the two servers, and the connections to them
- `responses.py`: responses as they are compared
- `may_differ.py`, `gateway_may_differ.py`: where they may differ, and why (`records_may_differ.py`,
  `topics_may_differ.py`, `waits_may_differ.py`, `coordinators_may_differ.py`)
- `run.py`: a run of operations; `block.py`: what differed
- `pipelines.py`, `waits.py`, `crowds.py`: several requests before a response, fetches that wait
  while topics change, groups of hundreds of members"""
