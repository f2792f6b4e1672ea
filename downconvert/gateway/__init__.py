"""A gateway for old clients to a Kafka cluster that no longer takes their requests.

>>> from downconvert.gateway.server import Gateway
>>> from downconvert.gateway.settings import build
>>> config = build({"bootstrap": ["kafka-1:9092"], "listen": "127.0.0.1:0", "read_only": True})
>>> config.listen.port
0
>>> gateway = Gateway(config)"""
