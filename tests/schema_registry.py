"""A Schema Registry in the process of a test, on loopback: its HTTP interface to schemas, and its failures."""

import base64
import json
import re
import ssl
import threading
import time
from contextlib import contextmanager
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

BY_TOPIC = {"subject.name.strategy": topic_subject_name_strategy}


class Registry:
    """Schemas by id and by subject."""

    def __init__(self):
        self.schemas = {}
        self.subjects = {}
        self.requests = []
        self.failing = None
        """Status that every request is answered with, or None."""
        self.slow = 0.0
        """Seconds before an answer."""
        self.login = None
        """User and password that every request must have."""
        self.url = ""

    def add(self, schema, kind="AVRO", references=(), subject=None):
        """Register a schema and return its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        entry = {"schema": text, "schemaType": kind, "references": list(references)}
        number = next((n for n, own in self.schemas.items() if own == entry), len(self.schemas) + 1)
        self.schemas[number] = entry
        versions = self.subjects.setdefault(subject or f"s{number}", [])
        if number not in versions:
            versions.append(number)
        return number

    @cached_property
    def client(self):
        """Client of confluent-kafka; to make one takes long."""
        return SchemaRegistryClient({"url": self.url})

    def avro(self, schema, *values, topic="features"):
        """Return values as confluent-kafka's serialiser writes them."""
        write = AvroSerializer(self.client, json.dumps(schema), conf=BY_TOPIC)
        return [write(value, SerializationContext(topic, MessageField.VALUE)) for value in values]

    def answer(self, method, path, body):
        """Return status and content of an answer."""
        parts = urlsplit(path)
        serialized = parse_qs(parts.query).get("format") == ["serialized"]
        if match := re.fullmatch(r"/schemas/ids/(\d+)", parts.path):
            number = int(match[1])
            if number not in self.schemas:
                return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
            return 200, self._content(number, serialized)
        subject, listed, version = unquote(parts.path).removeprefix("/subjects/").partition("/versions")
        if method == "POST":
            if not listed:
                # Whether it is registered already.
                return 404, {"error_code": 40401, "message": "Subject not found"}
            given = json.loads(body)
            number = self.add(given["schema"], given.get("schemaType", "AVRO"), given.get("references", ()), subject)
            return 200, {"id": number}
        numbers = self.subjects.get(subject)
        place = int(version[1:]) if re.fullmatch(r"/\d+", version) else 0
        if not numbers or not 1 <= place <= len(numbers):
            return 404, {"error_code": 40401 if not numbers else 40402, "message": "not found"}
        number = numbers[place - 1]
        return 200, {"subject": subject, "id": number, "version": place, **self._content(number, serialized)}

    def _content(self, number, serialized):
        own = self.schemas[number]
        if own["schemaType"] == "PROTOBUF" and not serialized:
            return {**own, "schema": 'syntax = "proto3";'}
        return own


@contextmanager
def running(context: ssl.SSLContext | None = None):
    """Serve a registry, with TLS where a context is given."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def _serve(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            registry.requests.append(f"{self.command} {self.path}")
            time.sleep(registry.slow)
            wanted = None
            if registry.login is not None:
                wanted = "Basic " + base64.b64encode(":".join(registry.login).encode()).decode()
            if registry.failing is not None:
                status, content = registry.failing, {"error_code": 50001, "message": "Error in the backend"}
            elif wanted is not None and self.headers.get("Authorization") != wanted:
                status, content = 401, {"error_code": 401, "message": "Unauthorized"}
            else:
                status, content = registry.answer(self.command, self.path, body)
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = _serve  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "http" if context is None else "https"
    registry.url = f"{scheme}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def message_class(file: FileDescriptorProto, name: str):
    """Return the class of a message of a file that imports nothing but the well-known ones."""
    pool = DescriptorPool()
    from google.protobuf import struct_pb2, timestamp_pb2, wrappers_pb2

    for module in (timestamp_pb2, wrappers_pb2, struct_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(name))


def serialized(file: FileDescriptorProto) -> str:
    """Return a file in the form in which a registry keeps descriptors."""
    return base64.b64encode(file.SerializeToString()).decode()
