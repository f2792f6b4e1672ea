"""The operator's keys, with which the keys of encrypted segments are encrypted (RSA).

They are read by the driver; tasks get the keys of the segments that they read, and no more. The
package `cryptography` does the work, where it is installed.

Not here: decrypting segments (chunks.py)."""

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from downconvert.storage.errors import CorruptFileError

NAME: Final = "DOWNCONVERT_ENCRYPTION_KEYS"
NEEDED: Final = (
    "segments are encrypted: pip install 'lazy-downconvert[tiered]' brings what reads it"
)


def parse_keys(text: str) -> Mapping[str, str]:
    """`id=/path/private.pem`, several with commas. ValueError: it is something else."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, path = part.partition("=")
        if not equals or not name or not path:
            raise ValueError(f"keys are given as id=/path/of/private.pem, not {part!r}")
        found[name.strip()] = path.strip()
    return found


class DataKeys:
    """Decrypts the keys of segments' data."""

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        """`files`: PEM files of private keys by their ids; None: as the environment says."""
        self._files = parse_keys(os.environ.get(NAME, "")) if files is None else files
        self._keys: dict[str, Any] = {}

    def decrypted(self, text: str, name: str) -> bytes:
        """The key in a manifest called `name`: `id:base64`. CorruptFileError: it is none, or of
        another key. ValueError: the key with this id is not given."""
        key_id, _, encoded = text.partition(":")
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CorruptFileError("has a malformed key", name) from error
        if key_id not in self._files:
            raise ValueError(
                f"{name} is encrypted with the key {key_id!r}: give its private key, "
                f"encryptionKeys={key_id}=/path/of/private.pem (or {NAME} in the environment)"
            )
        try:
            from cryptography.hazmat.primitives import hashes
            from cryptography.hazmat.primitives.asymmetric import padding
        except ModuleNotFoundError as error:
            raise ValueError(NEEDED) from error
        digest = hashes.SHA3_512()
        oaep = padding.OAEP(padding.MGF1(digest), digest, None)
        try:
            return bytes(self._key(key_id).decrypt(data, oaep))
        except ValueError as error:
            raise CorruptFileError(
                f"was encrypted with another key than {key_id!r}", name
            ) from error

    def _key(self, key_id: str) -> Any:
        if key_id not in self._keys:
            from cryptography.hazmat.primitives.serialization import load_pem_private_key

            path = Path(self._files[key_id])
            try:
                self._keys[key_id] = load_pem_private_key(path.read_bytes(), None)
            except (OSError, ValueError, TypeError) as error:
                raise ValueError(f"{path} is no private key in PEM that can be read") from error
        return self._keys[key_id]
