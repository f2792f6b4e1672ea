"""The configurations of a gateway's clusters, from its file and its options.

Not here: options as settings (gateway_flags.py), the meaning of settings (gateway/settings.py)."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from downconvert.access.rights import ConfigError
from downconvert.gateway.clusters import SectionError, build_all
from downconvert.gateway.config import GatewayConfig

from .config_file import ConfigFile
from .failure import CommandError
from .gateway_flags import settings_of


@contextmanager
def errors_of(file: ConfigFile, prefix: str = "") -> Iterator[None]:
    """A ConfigError in this block becomes a CommandError, with the line of the file where it is."""
    try:
        yield
    except SectionError as error:
        raise CommandError(f"{error}{file.where(error.reason, error.section)}") from None
    except ConfigError as error:
        message = f"{prefix}{error}"
        raise CommandError(f"{message}{file.where(message)}") from None


def configs_of(file: ConfigFile, flags: Mapping[str, Any]) -> dict[str, GatewayConfig]:
    """The configuration of each cluster, by its name. CommandError: a setting is invalid."""
    with errors_of(file):
        clusters = build_all(file.settings, settings_of(flags), os.environ)
    return {
        name: replace(one, recode_rules=(*flags["recode"], *one.recode_rules))
        for name, one in clusters.items()
    }
