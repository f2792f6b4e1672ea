"""`downconvert gateway --check`: prints the meaning of the settings, rule by rule, without a
gateway.

Not here: printing rules (rules_shown.py)."""

import time

from downconvert.gateway.certificates import Certificates
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.security import Credentials

from .rules_shown import YES_OR_NO, print_meaning, rules_of


def show(config: GatewayConfig, *, as_json: bool) -> None:
    """Prints valid settings. ConfigError: a file that they name is invalid."""
    certificates = Certificates(config)
    told = {
        "listen": str(config.listen),
        "cluster": ", ".join(map(str, config.bootstrap)),
        "connect": "from " + (" or ".join(map(str, config.access.networks)) or "anywhere"),
        "TLS": _tls(config, certificates.valid_until),
        "PROXY header": " or ".join(map(str, config.proxy_networks)) or "from nobody",
        "deny by default": YES_OR_NO[config.access.denies_unnamed],
        "observe": YES_OR_NO[config.is_observing],
    }
    access, credentials = config.access, config.security.credentials
    rules = rules_of(config.identities, access, credentials, _towards_cluster)
    if config.is_observing:
        rules[-1]["allows"] = {"everything": "passes through: the cluster decides"}
    print_meaning(told, rules, as_json=as_json)


def _tls(config: GatewayConfig, valid_until: float | None) -> str:
    if valid_until is None:
        return "no"
    date = time.strftime("%Y-%m-%d", time.gmtime(valid_until))
    old = ", which is not safe" if config.takes_old_tls else ""
    return f"{config.tls_min_version} and later{old}; the certificate is valid until {date}"


def _towards_cluster(credentials: Credentials | None) -> dict[str, str]:
    if credentials is None:
        return {}
    return {"asks as": f"{credentials.username or '?'}, by {credentials.mechanism}"}
