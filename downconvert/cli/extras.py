"""Advice for missing packages: which the distribution needs, and which extra installs the others.

Not here: the texts of other errors (failure.py)."""

from typing import Final

DISTRIBUTION: Final = "lazy-downconvert"

# Import names of packages that `pip install lazy-downconvert` installs. They are missing only if
# the project runs from its source, or if the environment is broken.
ALWAYS: Final = frozenset({"click", "cramjam", "crc32c", "lz4", "rich", "xxhash", "zstandard"})

# The extra that installs each other package. Two extras install `numpy`.
EXTRA_OF: Final = {
    "Crypto": "tiered",
    "deltalake": "delta",
    "cryptography": "oauth",
    "grpc": "connect",
    "jwt": "oauth",
    "kafka": "broker",
    "prometheus_client": "broker",
    "scramp": "broker",
    "matplotlib": "report",
    "numpy": "spark",
    "pandas": "spark",
    "py4j": "spark",
    "pyarrow": "spark",
    "pyiceberg": "iceberg",
    "pyspark": "spark",
}


def words_for(module: str) -> str | None:
    """One line for a module that cannot be imported. None if neither the distribution nor an extra
    installs it, which is a defect."""
    package = module.split(".")[0]
    if package in ALWAYS:
        return f"{package} is missing: pip install {DISTRIBUTION}"
    if package in EXTRA_OF:
        extra = EXTRA_OF[package]
        return (
            f"this needs the extra '{extra}': pip install '{DISTRIBUTION}[{extra}]', or in a clone "
            f"'.[{extra}]'"
        )
    return None
