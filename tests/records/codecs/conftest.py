"""Each deflate library in its turn, for the tests that ask for it."""

import zlib
from typing import Final

import pytest
from isal import isal_zlib

from records import backend
from records.codecs import deflate

LIBRARIES: Final = {"isal": isal_zlib, "zlib": zlib}


@pytest.fixture(params=["isal", "zlib", *(["native"] if backend.NAME == "native" else [])])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    monkeypatch.setattr(deflate, "library", LIBRARIES.get(name, isal_zlib))
    if name != "native":
        monkeypatch.setattr(deflate, "native", None)
    return name
