"""Makes `tests/data/aiven.zip`: what Aiven's plugin for tiered storage has put into an S3 store
from a broker of 3.9.1, what the broker still had, and what a consumer read.

    python -m tests.downconvert.spark.aiven_plugin 'PLUGIN/*' tests/data/aiven.zip

PLUGIN is a directory with the plugin's jars, of its core and of its S3 storage. These are in no
package registry: they are built from its source (Aiven-Open/tiered-storage-for-apache-kafka)."""

import json
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kafka import KafkaProducer

from tests import kafka_server, object_store
from tests.object_store import ObjectStore

from .test_tiers_kafka import SECONDS, bases, consumed, settings

PACKINGS: Final = {
    "plain": (False, False),
    "compressed": (True, False),
    "encrypted": (False, True),
    "both": (True, True),
}
TOPIC: Final = "events"
COUNT: Final = 60  # records of each kind
PLUGIN: Final = "io.aiven.kafka.tieredstorage"
CONFIG: Final = {
    "remote.storage.enable": "true",
    "segment.bytes": "6000",
    "segment.index.bytes": "1000",
    "index.interval.bytes": "500",
    "local.retention.bytes": "6000",
    "retention.bytes": "-1",
}


def properties(
    classes: str, store: ObjectStore, home: Path, *, compression: bool, encryption: bool
) -> dict[str, str]:
    """Settings of a broker with the plugin."""
    given = {
        "chunk.size": "1500",
        "compression.enabled": str(compression).lower(),
        "encryption.enabled": str(encryption).lower(),
        "encryption.key.pair.id": "main",
        "encryption.key.pairs": "main",
        "encryption.key.pairs.main.public.key.file": str(home / "public.pem"),
        "encryption.key.pairs.main.private.key.file": str(home / "private.pem"),
        "storage.backend.class": f"{PLUGIN}.storage.s3.S3Storage",
        "storage.s3.bucket.name": "bucket",
        "storage.s3.region": "us-east-1",
        "storage.s3.endpoint.url": store.endpoint,
        "storage.s3.path.style.access.enabled": "true",
        "storage.aws.access.key.id": object_store.USER,
        "storage.aws.secret.access.key": object_store.SECRET,
    }
    common = settings(home, classes)
    kept = {name: value for name, value in common.items() if not name.startswith("rsm.config")}
    return {
        **kept,
        "remote.log.storage.manager.class.name": f"{PLUGIN}.RemoteStorageManager",
        **{f"rsm.config.{name}": value for name, value in given.items()},
    }


def produce(bootstrap: str) -> None:
    """Small batches, of which some are of a transaction that is aborted, and lz4."""
    with KafkaProducer(bootstrap_servers=bootstrap) as plain:
        for number in range(COUNT):
            plain.send(TOPIC, bytes(range(100)) * 3, b"%d" % number, partition=0).get(30)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, transactional_id="one", compression_type="lz4", linger_ms=5
    )
    producer.init_transactions()
    for is_kept in (False, True):
        producer.begin_transaction()
        for number in range(COUNT):
            headers = [("n", b"%d" % number)]
            producer.send(TOPIC, b"%d" % number * 200, headers=headers, partition=0)
            if number % 7 == 0:
                producer.flush()
        producer.flush()
        producer.commit_transaction() if is_kept else producer.abort_transaction()
    producer.close()
    with KafkaProducer(bootstrap_servers=bootstrap) as last:
        for _ in range(COUNT):
            last.send(TOPIC, bytes(range(200)), partition=0).get(30)


def is_tiered(local: Path, bucket: Path) -> bool:
    """Whether all but the segment that is written to were copied, and the first deleted here."""
    remote = {int(path.name[:20]) for path in bucket.rglob("*.rsm-manifest")}
    here = bases(local)
    return bool(here) and here[0] > 0 and set(here[:-1]) <= remote


def made(classes: str, home: Path, *, compression: bool, encryption: bool) -> Iterator[Any]:
    """Names and bytes of what there is in the end."""
    from Crypto.PublicKey import RSA

    key = RSA.generate(2048)
    (home / "public.pem").write_bytes(key.public_key().export_key("PEM"))
    (home / "private.pem").write_bytes(key.export_key("PEM", pkcs=8))
    bucket, logs = home / "buckets" / "bucket", home / "logs"
    bucket.mkdir(parents=True)
    with object_store.running(home / "buckets", home / "requests.log") as store:
        given = properties(classes, store, home, compression=compression, encryption=encryption)
        with kafka_server.running(kafka_server.OLD, log_dir=logs, properties=given) as kafka:
            kafka.create_topic(TOPIC, 1, config=CONFIG)
            produce(kafka.bootstrap)
            deadline = time.monotonic() + SECONDS
            while not is_tiered(logs / f"{TOPIC}-0", bucket):
                assert time.monotonic() < deadline, kafka.log_of(0).read_text()[-4000:]
                time.sleep(0.1)
            for isolation in ("read_uncommitted", "read_committed"):
                found = consumed(kafka.bootstrap, isolation, TOPIC, 1)
                yield f"{isolation}.json", json.dumps(found, default=bytes.hex).encode()
    for path in bucket.rglob("*"):
        if path.is_file():
            yield f"tier/{path.relative_to(bucket)}", path.read_bytes()
    for path in (logs / f"{TOPIC}-0").iterdir():
        yield f"logs/{TOPIC}-0/{path.name}", path.read_bytes()
    yield "private.pem", (home / "private.pem").read_bytes()


def main(classes: str, target: str) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as archive:
        for name, (compression, encryption) in PACKINGS.items():
            with tempfile.TemporaryDirectory() as home:
                for file, data in made(
                    classes, Path(home), compression=compression, encryption=encryption
                ):
                    archive.writestr(zipfile.ZipInfo(f"{name}/{file}"), data, zipfile.ZIP_LZMA)


if __name__ == "__main__":
    main(*sys.argv[1:])
