"""nginx that logs requests to Kafka from Lua, as OpenResty, APISIX and Kong do it.

Each request is one record. Of lua-resty-kafka Debian has 0.07, under the name of lua-nginx-kafka;
the requests that it sends are those of 0.23, the latest."""

import http.client
from pathlib import Path
from typing import Final

from tests.ports import LOOPBACK, free_ports

from . import packages
from .application import AS_IT_COMES, NAMES, Application, Does, Setting, Trial
from .children import running

PACKAGES: Final = (
    *("nginx", "libnginx-mod-http-ndk", "libnginx-mod-http-lua", "lua-nginx-kafka"),
    *("lua-resty-core", "lua-resty-lrucache", "libluajit2-5.1-2", "libluajit2-5.1-common"),
    "libpcre3",
)
TIMEOUT: Final = 20.0  # seconds for a request

_NGINX: Final = """
load_module {root}/usr/lib/nginx/modules/ndk_http_module.so;
load_module {root}/usr/lib/nginx/modules/ngx_http_lua_module.so;
daemon off; master_process off; pid {here}/nginx.pid; error_log {here}/output.log notice;
events {{ worker_connections 64; }}
http {{
    access_log off; client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;
    fastcgi_temp_path {here}/fastcgi; uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;
    lua_package_path "{root}/usr/share/lua/5.1/?.lua;;";
    server {{
        listen 127.0.0.1:{port};
        location /ready {{ return 204; }}
        location / {{ content_by_lua_block {{
            local producer = require "nginx.kafka.producer"
            local brokers = {{ {{ host = "127.0.0.1", port = {broker} }} }}
            local settings = {{ {settings} }}
            local sender = producer:new(brokers, settings)
            local done, failed = sender:send("{topic}", nil, ngx.var.arg_name)
            if not done then
                ngx.log(ngx.ERR, "send failed: ", failed)
                ngx.status = 502
            end
            ngx.say(done and "sent" or failed)
        }} }}
    }}
}}
"""


def install() -> Path:
    return packages.debian(*PACKAGES)


def run(trial: Trial) -> str:
    [port] = free_ports(1)
    root = trial.installed
    text = _NGINX.format(
        root=root,
        here=trial.directory,
        port=port,
        broker=trial.bootstrap.rpartition(":")[2],
        settings=trial.setting.values.get("producer", ""),
        topic=trial.topic,
    )
    configuration = trial.write("nginx.conf", text)
    command = (str(root / "usr/sbin/nginx"), "-p", str(trial.directory), "-c", str(configuration))
    with running(command, trial.log, environment=packages.of_debian(root)) as process:
        trial.until(lambda: _asked(port, "/ready") is not None, process)
        for name in NAMES:
            if _asked(port, f"/?name={name}") != http.client.OK:
                return ""
        trial.until(trial.arrived, process)
    return ""


def _asked(port: int, path: str) -> int | None:
    """The status of the response; None where there is none."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=TIMEOUT)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


APPLICATIONS: Final = (
    Application(
        name="nginx with Lua (OpenResty, APISIX, Kong)",
        comes_from="Debian: nginx 1.22.1, libnginx-mod-http-lua 0.10.23, lua-nginx-kafka 0.07",
        client="lua-resty-kafka 0.07",
        does=Does.PRODUCES,
        settings=(
            AS_IT_COMES,
            Setting("`api_version = 1`", {"producer": "api_version = 1"}),
            Setting("`api_version = 2`", {"producer": "api_version = 2"}),
            Setting('`producer_type = "async"`', {"producer": 'producer_type = "async"'}),
        ),
        install=install,
        run=run,
    ),
)
