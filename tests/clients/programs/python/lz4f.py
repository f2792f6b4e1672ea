# mypy: ignore-errors
"""The module that kafka-python 1.0 imports for lz4; the package of this name no longer builds."""

import lz4.frame


def compressFrame(data):  # noqa: N802
    return lz4.frame.compress(data, store_size=False)


def createCompContext():  # noqa: N802
    return None


def decompressFrame(data, _):  # noqa: N802
    return {"decomp": lz4.frame.decompress(data)}
