"""Writes generated trees as brokers' directories, with their damage.

Not here: the contents of the directories (tree_model.py)."""

import random
from pathlib import Path
from typing import Final

from downconvert.storage.names import HIGH_WATERMARKS, META_PROPERTIES, Kind, file_name
from records.formats import BATCH_HEADER_SIZE, V2
from tests.damage import damaged
from tests.downconvert.storage.logs import indexed_segment

from .tree_log import transactions, write_transaction_index
from .tree_model import NAME, TOPIC_ID, WRONG_EPOCH, Piece, Tree

OFFSET_SIZE: Final = 8
MISCOUNTED: Final = {  # fields of a header, and their wrong values
    "many": ("last_offset_delta", 1000),
    "few": ("last_offset_delta", 0),
    "records": ("records_count", 1),
    "epoch": ("leader_epoch", WRONG_EPOCH),
}


def written(tree: Tree, path: Path, *, is_healed: bool = False) -> None:
    """Writes the directories. `is_healed`: in their state before the damage."""
    chance = random.Random(tree.seed)
    for copy in (*tree.copies, *(tree.lost if is_healed else ())):
        directory = path / copy.broker / NAME
        directory.mkdir(parents=True, exist_ok=True)
        aborted = transactions(copy.log).aborted
        for piece in copy.pieces:
            _write(directory, piece, is_healed=is_healed)
            if piece.is_indexed and (is_healed or not piece.is_gone):
                write_transaction_index(directory, piece.base, piece.batches, aborted)
            if piece.index_damage is not None and not is_healed and not piece.is_gone:
                _damage_indexes(directory, piece)
        noted = "".join(f"{epoch} {start}\n" for epoch, start in copy.epochs)
        text = f"0\n{len(copy.epochs)}\n{noted}"
        (directory / "leader-epoch-checkpoint").write_text(text)
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
        if copy.cleaned:
            text = f"0\n1\na 0 {copy.cleaned}\n"
            (directory.parent / "cleaner-offset-checkpoint").write_text(text)
        if copy.deleted:
            text = f"0\n1\na 0 {copy.deleted}\n"
            (directory.parent / "log-start-offset-checkpoint").write_text(text)
        if copy.high_watermark is not None:
            text = f"0\n1\na 0 {copy.high_watermark}\n"
            (directory.parent / HIGH_WATERMARKS).write_text(text)
        if tree.cluster:
            text = f"version=1\ncluster.id={tree.cluster}\n"
            (directory.parent / META_PROPERTIES).write_text(text)
        if chance.random() < 0.3:
            _stray(directory, tree)
    if tree.is_refused:
        directory = path / "b9" / NAME
        directory.mkdir(parents=True)
        (directory / file_name(0, Kind.LOG)).write_bytes(b"")
        text = f"version: 0\ntopic_id: {TOPIC_ID[:-1]}g"
        (directory / "partition.metadata").write_text(text)


def _stray(directory: Path, tree: Tree) -> None:
    for folder in (directory, directory.parent):
        (folder / "rsync.log").write_bytes(b"sent 12 bytes")
    (directory / file_name(3, Kind.LOG)).with_suffix(".log.deleted").write_bytes(b"?")
    if tree.seed % 2:
        for suffix in ("delete", "future", "stray"):
            other = directory.with_name(f"{NAME}.{'0' * 32}-{suffix}")
            other.mkdir(exist_ok=True)
            (other / file_name(0, Kind.LOG)).write_bytes(b"?")


def _write(directory: Path, piece: Piece, *, is_healed: bool) -> None:
    datas = [one.data for one in piece.batches]
    log = directory / file_name(piece.base, Kind.LOG)
    if piece.is_gone and not is_healed:
        return
    if piece.is_indexed:
        indexed_segment(directory, piece.base, *datas)
    data = bytearray(b"".join(datas))
    if not is_healed:
        for number, what in sorted(piece.broken.items()):
            at = sum(map(len, datas[:number]))
            size = len(datas[number])
            is_old = piece.batches[number].magic != V2
            if what == "noise":
                data[at : at + size] = random.Random(number).randbytes(size)
            elif what == "zeros" or (what == "header" and is_old):
                data[at : at + size] = bytes(size)
            elif what == "offset":
                flipped = piece.batches[number].base ^ 1 << piece.flips[number]
                data[at : at + OFFSET_SIZE] = (flipped % 2**64).to_bytes(OFFSET_SIZE, "big")
            elif what in MISCOUNTED:
                field, to = MISCOUNTED[what]
                wrong = damaged(datas[number], field=field, to=to, crc="stale")
                data[at : at + size] = wrong
            elif what == "size":
                data[at + OFFSET_SIZE] = 0x7F  # its first byte
            elif what == "header":
                data[at : at + BATCH_HEADER_SIZE] = bytes(BATCH_HEADER_SIZE)
            else:  # byte 61 of old formats may be in a message's offset, which has no checksum
                data[at + size - 1 if is_old else at + BATCH_HEADER_SIZE] ^= 1
        del data[len(data) if piece.keep is None else piece.keep :]
    log.write_bytes(data)
    if piece.spare:
        _preallocate(directory, piece)


def _preallocate(directory: Path, piece: Piece) -> None:
    """Adds zeros to the files of the active segment."""
    for kind, size in [
        (Kind.LOG, piece.spare),
        (Kind.OFFSET_INDEX, 8 * piece.spare),
        (Kind.TIME_INDEX, 12 * piece.spare),
    ]:
        path = directory / file_name(piece.base, kind)
        if path.exists():
            path.write_bytes(path.read_bytes() + bytes(size))


def _damage_indexes(directory: Path, piece: Piece) -> None:
    """Removes, cuts, or overwrites some of a segment's indexes."""
    chance = random.Random(piece.index_damage)
    for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX):
        path = directory / file_name(piece.base, kind)
        if not path.exists():
            continue
        data = path.read_bytes()
        what = chance.choice(["no", "gone", "cut", "zeros", "noise", "bit"])
        if kind is Kind.TRANSACTION_INDEX:  # other damage would not show: it has no checksum
            path.write_bytes(b"?" + data[1:])
        elif what == "gone":
            path.unlink()
        elif what == "cut":
            path.write_bytes(data[: chance.randrange(len(data) + 1)])
        elif what == "zeros":
            path.write_bytes(bytes(len(data)))
        elif what == "noise":
            path.write_bytes(chance.randbytes(len(data) + chance.randrange(9)))
        elif what == "bit" and data:
            at = chance.randrange(len(data))
            path.write_bytes(
                data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
            )
