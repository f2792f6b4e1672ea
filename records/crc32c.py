"""CRC-32C, from the package `crc32c`.

Its compiled module is loaded alone. The package's `__init__` asks importlib.metadata for the
package's own version, and that loads email and socket: a third of the time that
`import downconvert` takes."""

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final, Protocol, cast

from .kernel import Buffer

_PACKAGE: Final = "crc32c"


class Crc32c(Protocol):
    """The checksum of `data`, going on from that of what is before it."""

    def __call__(self, data: Buffer, crc: int = 0, /) -> int: ...


def _loaded() -> Crc32c:
    package = PathFinder.find_spec(_PACKAGE)
    places = package.submodule_search_locations if package else None
    spec = PathFinder.find_spec(f"{_PACKAGE}._crc32c", places) if places else None
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return cast(Crc32c, module.crc32c)
    # Another version keeps it elsewhere, or it is not here at all, which the import says.
    from crc32c import crc32c as found

    return cast(Crc32c, found)


crc32c: Final = _loaded()
