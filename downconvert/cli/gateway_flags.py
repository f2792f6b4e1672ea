"""Options of `downconvert gateway` as settings of its file.

Not here: the options (gateway.py), the meaning of settings (gateway/settings.py)."""

from collections.abc import Mapping
from typing import Any, Final

LIMITS: Final = ("connect_timeout", "request_timeout", "idle_timeout")
# Settings with the same names as options. An empty value, perhaps from an unset variable, is an
# error.
FLAGS: Final = (
    *("listen", "advertise", "advertise_without_name"),
    *("tls_cert", "tls_key", "tls_min_version", "tls_ciphers"),
)


def settings_of(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Converts flags to settings of the file."""
    given = {name: value for name, value in flags.items() if value}
    settings = {name: flags[name] for name in FLAGS if flags[name] is not None}
    settings |= {
        name: flags[name].split(",")
        for name in (
            "bootstrap",
            "server_names",
            "topics",
            "groups",
            "transactional_ids",
            "networks",
            "proxy_networks",
        )
        if flags[name] is not None  # an empty list is kept, because it is an error
    }
    if "spool_dir" in given:
        settings["spool_dir"] = given["spool_dir"]
    switches = ("read_only", "deny_by_default", "observe", "share_ports")
    settings |= {name: True for name in switches if name in given}
    if "node_ports" in given:
        pairs = (pair.partition("=") for pair in given["node_ports"])
        settings["node_ports"] = {node: port for node, _, port in pairs}
    cluster: dict[str, Any] = {}
    if "cluster_tls" in given or "cluster_ca" in given:
        cluster["tls"] = True
    cluster |= {name: given[name] for name in ("sasl", "username", "secret_file") if name in given}
    if "cluster_ca" in given:
        cluster["ca_file"] = given["cluster_ca"]
    limits = {name: given[name] for name in LIMITS if name in given}
    tables = {"cluster": cluster, "limits": limits}
    return settings | {name: table for name, table in tables.items() if table}
