"""Loads the compiled kernel if Python imports this package from a zip, as with Spark's `--py-files`
and `addArtifacts(pyfile=True)`. A library cannot be loaded from inside a zip, so it is copied to a
temporary file, which is removed after loading.

Importing this module loads the kernel as `records._kernel`. It does nothing if the package is in a
directory, or if the zip has no kernel for this system.

Not here: the kernel's functions (native.py), the creation of such a zip
(downconvert/spark/jobs/shipping.py)."""

import sys
import tempfile
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, spec_from_file_location
from typing import Final
from zipimport import zipimporter

NAME: Final = "records._kernel"


def load_kernel(importer: object) -> None:
    """Loads the kernel from the zip that `importer` imports from. ImportError: it exists and cannot
    be loaded."""
    if not isinstance(importer, zipimporter) or NAME in sys.modules:
        return
    stem = f"{importer.prefix}{NAME.rpartition('.')[2]}"
    for suffix in EXTENSION_SUFFIXES:
        with suppress(OSError):
            data = importer.get_data(f"{stem}{suffix}")
            break
    else:
        return
    try:
        with tempfile.NamedTemporaryFile(suffix=suffix) as file:
            file.write(data)
            file.flush()
            spec = spec_from_file_location(NAME, file.name)
            assert spec is not None
            assert spec.loader is not None
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
    except OSError as error:
        raise ImportError(f"the kernel cannot be copied out of its zip: {error}") from error
    sys.modules[NAME] = module


load_kernel(__spec__.loader if __spec__ is not None else None)
