"""CRC-32C, from the package `crc32c`.

Only its compiled module is loaded. The package's `__init__` asks importlib.metadata for the
package's version, which loads email and socket: a third of the time of `import downconvert`."""

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final, Protocol, cast

from .kernel import Buffer

_PACKAGE: Final = "crc32c"


class Crc32c(Protocol):
    """The checksum of `data`, continued from that of earlier bytes."""

    def __call__(self, data: Buffer, crc: int = 0, /) -> int: ...


def _loaded() -> Crc32c:
    package = PathFinder.find_spec(_PACKAGE)
    places = package.submodule_search_locations if package else None
    spec = PathFinder.find_spec(f"{_PACKAGE}._crc32c", places) if places else None
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return cast(Crc32c, module.crc32c)
    # Another version has it elsewhere. If it is missing, the import reports that.
    from crc32c import crc32c as found

    return cast(Crc32c, found)


crc32c: Final = _loaded()
