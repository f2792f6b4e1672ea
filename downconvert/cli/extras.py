"""What to install where a package is missing: which packages the distribution needs, and which of
its extras bring the others.

Not here: what is said of other errors (failure.py)."""

from typing import Final

DISTRIBUTION: Final = "lazy-downconvert"

# Import names. `pip install lazy-downconvert` brings these; they are missing only where the project
# runs from its source, or an environment is broken.
ALWAYS: Final = frozenset({"click", "cramjam", "crc32c", "lz4", "rich", "xxhash", "zstandard"})

# The extra that brings each of the others. `numpy` comes with two.
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
    """One line for a module that cannot be imported; None if none of ours brings it: a defect."""
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
