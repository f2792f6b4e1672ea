"""Places the copies of a generated tree: in tars, gzipped, in tiered storage with a local tail, or
on two disks of a broker. Some copies are missing as a whole, or empty.

Not here: the contents of the copies (tree_model.py), their damage (tree_damage.py)."""

import atexit
import gzip
import os
import random
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from downconvert.spark.stores.data_keys import NAME as NAME_OF_KEYS
from downconvert.storage.names import Kind, file_name
from records.formats import V2
from tests.downconvert.spark.tiered import Packing, aiven, local_tiered, write_key

from .tree_model import NAME, TOPIC_ID, Copy, Piece, Tree

# Seeds from here on have places. Earlier ones stay as they are: tests name them.
PLACED: Final = 6_000_000
TIER: Final = "tier"
SECOND_TIER: Final = "tier2"  # the segments that another leader has copied (tree_mixed.py)
THIRD_TIER: Final = "tier3"
TIERS: Final = (TIER, SECOND_TIER, THIRD_TIER)
REMOTE: Final = "remote"


def place(tree: Tree) -> None:
    """Moves the copies of a tree, and removes or adds whole ones."""
    chance = random.Random(f"place {tree.seed}")
    if chance.random() < 0.35:
        _tier(chance, tree)
    if chance.random() < 0.25:
        _lose(chance, tree)
    if chance.random() < 0.15:
        _add_empty(chance, tree)
    for one in tree.copies:
        if one.broker == TIER:
            continue
        if chance.random() < 0.2:
            one.broker, one.moved_as = f"{one.broker}/d1", chance.choice(["future", "delete"])
        if chance.random() < 0.3:
            one.packing = chance.choice(["tar", "gz", "tar of gz"])
            if "gz" in one.packing:
                for piece in one.pieces:
                    piece.is_gzipped = True


def _tier(chance: random.Random, tree: Tree) -> None:
    """Copies the rolled segments of the leader to tiered storage, and deletes some of them from the
    leader's disk."""
    leader = tree.copies[0]
    is_possible = (
        len(leader.pieces) > 1
        and not any(one.cleaned for one in tree.copies)
        and all(one.magic == V2 for one in tree.log)
    )
    if not is_possible:
        return
    count = chance.randrange(1, len(leader.pieces))
    pieces = [Piece(one.base, list(one.batches), is_indexed=True) for one in leader.pieces[:count]]
    for piece in pieces:
        if tree.is_hurt and piece.batches and chance.random() < 0.2:
            what = chance.choice(["body", "header", "zeros", "noise", "gone"])
            if what == "gone":
                piece.is_gone = True
            else:
                piece.broken[chance.randrange(len(piece.batches))] = what
    end = leader.pieces[count].base
    log = [one for one in tree.log if one.last < end]
    epochs = [one for one in leader.epochs if one[1] < end]
    kind = chance.choice(["kafka", "aiven"])
    tree.copies.append(Copy(TIER, pieces, epochs, True, log, packing=kind))
    kept = chance.choice([0, count, chance.randrange(count + 1)])
    leader.deleted = leader.deleted if leader.deleted < leader.pieces[kept].base else 0
    del leader.pieces[:kept]
    if not leader.present() and not all(one.is_valid for one in tree.copies):
        # Readers choose among the brokers' copies. Tiered storage alone does not show that a later
        # leader has truncated a copy.
        leader.pieces[-1].is_gone = False


def _lose(chance: random.Random, tree: Tree) -> None:
    """Leaves out a copy, or all of a topic's copies on brokers if it is in tiered storage."""
    has_tier = any(one.broker == TIER for one in tree.copies)
    if has_tier and chance.random() < 0.3:
        lost = [one for one in tree.copies if one.broker != TIER]
    else:
        one = chance.choice(tree.copies)
        lost = [one] if one.broker != TIER else []
    left = [one for one in tree.copies if one not in lost]
    is_leader_left = tree.copies[0] not in lost
    if all(one.broker == TIER for one in left) and not any(map(_is_there, left)):
        return  # no copy would be left to read
    if not left or (not is_leader_left and not all(one.is_valid for one in left)):
        return
    tree.copies, tree.lost = left, lost


def _is_there(one: Copy) -> bool:
    return any(piece.batches for piece in one.present())


def is_written(one: Copy) -> bool:
    """Whether any segment of a copy is left. Empty segments are not copied to tiered storage."""
    return _is_there(one) if one.broker in TIERS else bool(one.present())


def _add_empty(chance: random.Random, tree: Tree) -> None:
    """Adds a copy without records: no files, or an empty segment."""
    first = tree.copies[0].pieces[:1] if tree.copies[0].present() else []
    base = chance.choice([0, *(piece.base for piece in first)])
    pieces = [] if chance.random() < 0.4 else [Piece(base, [], chance.random() < 0.5)]
    tree.copies.append(Copy("b7", pieces, [], True, []))


def move(tree: Tree, path: Path) -> None:
    """Moves the written directories to their places."""
    for one in (*tree.copies, *tree.lost):
        directory = path / one.broker / NAME
        if not directory.exists():
            continue
        if one.broker in TIERS:
            _to_tier(one, directory, path / REMOTE, is_encrypted=tree.is_encrypted)
            shutil.rmtree(path / one.broker)
            continue
        if one.moved_as:
            add_move(random.Random(tree.seed), directory, one.moved_as)
        pack(path / one.broker.split("/")[0], directory, one.packing)


def pack(top: Path, directory: Path, packing: str) -> None:
    """Packs a broker's copy as `packing` says: gzips its logs, or makes a tar of all the broker's
    files, or both."""
    if "gz" in packing:
        for log in directory.glob("*.log"):
            log.with_suffix(".log.gz").write_bytes(gzip.compress(log.read_bytes(), 1))
            log.unlink()
    if "tar" in packing:
        with tarfile.open(f"{top}.tar", "w") as tar:
            tar.add(top, top.name)
        shutil.rmtree(top)


def _to_tier(one: Copy, directory: Path, target: Path, *, is_encrypted: bool) -> None:
    key_pair = operator_key() if is_encrypted else None
    for piece in one.present():
        if not piece.batches:
            continue
        name = f"{piece.base:022d}"[1:] + "abc"[TIERS.index(one.broker)]
        if one.packing == "kafka":
            local_tiered(target, directory, piece.base, name, topic_id=TOPIC_ID)
        else:
            last, packing = piece.batches[-1].last, Packing(200, piece.base % 2 == 1, key_pair)
            aiven(target, directory, piece.base, last, packing, name, topic_id=TOPIC_ID)


@cache
def operator_key() -> Any:
    """The key pair that encrypts tiered storage. All readers in this process find it."""
    from Crypto.PublicKey import RSA

    key_pair = RSA.generate(1536)  # short, to be quick: it protects nothing
    descriptor, path = tempfile.mkstemp(prefix="trees-", suffix=".pem")
    os.close(descriptor)
    atexit.register(os.unlink, path)
    write_key(key_pair, Path(path))
    os.environ[NAME_OF_KEYS] = f"main={path}"
    return key_pair


def add_move(chance: random.Random, directory: Path, suffix: str) -> None:
    """Adds a directory of a broker's other disk, as while it moves a partition: the unfinished new
    one, or the old one, which is about to be deleted."""
    other = directory.parent.with_name("d2") / f"{NAME}.{'0' * 31}1-{suffix}"
    shutil.copytree(directory, other)
    logs = sorted(other.glob("*.log"))
    if suffix == "future" and logs:
        data = logs[-1].read_bytes()
        logs[-1].write_bytes(data[: chance.randrange(len(data) + 1)])
        (other / file_name(0, Kind.LOG)).touch()
