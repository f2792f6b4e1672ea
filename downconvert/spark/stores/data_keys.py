"""The operator's RSA keys, which decrypt the data keys of segments.

The driver reads them. Tasks get only the data keys of the segments that they read. RSA-OAEP with
SHA3-512 needs the package `pycryptodome`.

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
NO_KEY: Final = "is no private key in PEM that can be read"


def parse_keys(text: str) -> Mapping[str, str]:
    """Parses `id=/path/private.pem`, several separated by commas. ValueError: it is something
    else."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, path = part.partition("=")
        if not equals or not name or not path:
            raise ValueError(f"keys are given as id=/path/of/private.pem, not {part!r}")
        found[name.strip()] = path.strip()
    return found


class KeyFileError(ValueError):
    """A key of the operator that is missing or invalid."""


class DataKeys:
    """Decrypts the data keys of segments."""

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        """`files`: PEM files of private keys by their ids; None: those of the environment."""
        self._files = parse_keys(os.environ.get(NAME, "")) if files is None else files
        self._keys: dict[str, Any] = {}

    def decrypted(self, text: str, name: str) -> bytes:
        """Decrypts the key `id:base64` from a manifest called `name`. CorruptFileError: it is
        malformed, or was encrypted with another key. KeyFileError: the key with this id is
        missing."""
        key_id, _, encoded = text.partition(":")
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CorruptFileError("has a malformed key", name) from error
        if key_id not in self._files:
            raise KeyFileError(
                f"{name} is encrypted with the key {key_id!r}: give its private key, "
                f"encryptionKeys={key_id}=/path/of/private.pem (or {NAME} in the environment)"
            )
        try:
            from Crypto.Cipher import PKCS1_OAEP
            from Crypto.Hash import SHA3_512
        except ModuleNotFoundError as error:
            raise KeyFileError(NEEDED) from error
        key = self._key(key_id)
        try:
            return bytes(PKCS1_OAEP.new(key, SHA3_512).decrypt(data))
        except (ValueError, TypeError) as error:
            raise CorruptFileError(f"has a key that {key_id!r} does not open", name) from error

    def _key(self, key_id: str) -> Any:
        if key_id not in self._keys:
            from Crypto.PublicKey import RSA

            path = Path(self._files[key_id])
            try:
                key = RSA.import_key(path.read_bytes())
            except Exception as error:  # of a damaged key, pycryptodome raises errors of any kind
                raise KeyFileError(f"{path} {NO_KEY}") from error
            if not key.has_private():
                raise KeyFileError(f"{path} {NO_KEY}")
            self._keys[key_id] = key
        return self._keys[key_id]
