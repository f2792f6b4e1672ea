"""The operator's keys decrypt data keys, each by its id, and errors name the cause."""

import base64
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from Crypto.Cipher import PKCS1_OAEP
from Crypto.Hash import SHA3_512
from Crypto.PublicKey import RSA
from Crypto.Util.asn1 import DerSequence
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from downconvert.spark.stores.data_keys import NAME, DataKeys, KeyFileError, parse_keys
from downconvert.storage.errors import CorruptFileError


def made() -> RSA.RsaKey:
    """A new key. `cryptography` makes it a hundred times as fast as pycryptodome."""
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return RSA.import_key(pem)


FIRST, SECOND = made(), made()


def encrypted(key_id: str, key: RSA.RsaKey, data: bytes) -> str:
    sealed = PKCS1_OAEP.new(key.public_key(), SHA3_512).encrypt(data)
    return f"{key_id}:{base64.b64encode(sealed).decode()}"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    found = {"one": tmp_path / "first.pem", "two": tmp_path / "second.pem"}
    found["one"].write_bytes(FIRST.export_key())
    found["two"].write_bytes(SECOND.export_key())
    return {key_id: str(path) for key_id, path in found.items()}


def test_each_data_key_is_decrypted_with_the_key_of_its_id(files: dict[str, str]) -> None:
    keys = DataKeys(files)
    for _ in range(2):
        assert keys.decrypted(encrypted("one", FIRST, b"a" * 32), "m") == b"a" * 32
        assert keys.decrypted(encrypted("two", SECOND, b"b" * 32), "m") == b"b" * 32


def test_a_data_key_encrypted_with_another_key_is_corrupt(files: dict[str, str]) -> None:
    with pytest.raises(CorruptFileError, match="'one' does not open"):
        DataKeys(files).decrypted(encrypted("one", SECOND, b"a"), "m")


def test_no_given_files_means_none_even_if_the_environment_has_some(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, f"one={files['one']}")
    text = encrypted("one", FIRST, b"a")
    assert DataKeys().decrypted(text, "m") == b"a"
    with pytest.raises(KeyFileError, match="m is encrypted with the key 'one'"):
        DataKeys({}).decrypted(text, "m")


@pytest.mark.parametrize("encoded", ["YQ=", "Y Q==", "Y!Q=="])
def test_a_malformed_data_key_is_corrupt(files: dict[str, str], encoded: str) -> None:
    with pytest.raises(CorruptFileError, match="malformed key"):
        DataKeys(files).decrypted(f"one:{encoded}", "m")


PEM = FIRST.export_key()


def with_field(number: int, value: int) -> bytes:
    """The first key, with another number in a field of RFC 8017's RSAPrivateKey."""
    of_key = DerSequence().decode(FIRST.export_key("DER"))
    of_key[number] = value
    return bytes(of_key.encode())


NO_KEYS: Final = {
    "missing": None,
    "empty": b"",
    "text": b"no key",
    "zeros": b"\0" * 10,
    "only the first byte": b"\x30",
    "cut off": PEM[:100],
    "overwritten": PEM.replace(PEM[40:80], b"?" * 40),
    "a prime of 0": with_field(5, 0),
    "a prime of 1": with_field(4, 1),
    "public": FIRST.public_key().export_key(),
    "encrypted": FIRST.export_key(passphrase="secret", pkcs=8),
}


@pytest.mark.parametrize("content", NO_KEYS.values(), ids=NO_KEYS.keys())
def test_a_key_file_that_is_missing_or_no_key_is_named(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "other.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(KeyFileError, match=r"other\.pem is no private key in PEM"):
        DataKeys({"one": str(path)}).decrypted("one:YQ==", "m")


def test_a_damaged_key_file_of_any_kind_is_named(tmp_path: Path) -> None:
    """Lengths in it lead beyond its end."""
    path, good = tmp_path / "other.pem", FIRST.export_key("DER")
    for at in range(1, 16):
        for value in (0, 0x80, 0x84, 0xFF):
            path.write_bytes(good[:at] + bytes([value]) + good[at + 1 :])
            with suppress(KeyFileError, CorruptFileError):
                DataKeys({"one": str(path)}).decrypted("one:YQ==", "m")


def test_keys_are_parsed_with_spaces_and_equals_signs_in_paths() -> None:
    assert parse_keys(" a = /x=y.pem , b=/z.pem,, ") == {"a": "/x=y.pem", "b": "/z.pem"}
    assert parse_keys("") == {}


@pytest.mark.parametrize("text", ["a", "=/x.pem", "a=", "a=/x.pem,b"])
def test_a_key_without_an_id_or_a_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="keys are given as"):
        parse_keys(text)
