"""HTTP/1.1 on a loopback port: requests with a length, answers with a length."""

import asyncio
import base64
import json
import urllib.parse
from http import HTTPStatus


class Request:
    def __init__(self, method, target, headers, body):
        self.method = method
        self.path, _, query = target.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        self.headers = headers  # names in lower case
        self.body = body

    def json(self):
        return json.loads(self.body)

    def as_record(self):
        return {
            "method": self.method,
            "path": self.path,
            "query": self.query,
            "headers": self.headers,
            "body": base64.b64encode(self.body).decode(),
        }


class Response:
    def __init__(self, body=b"", status=200, content_type="application/json", headers=None):
        self.body = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        self.status = status
        self.headers = {"Content-Type": content_type, **(headers or {})}
        self.is_dropped = False  # the connection ends without an answer
        self.is_proto = content_type == "application/x-protobuf"

    @classmethod
    def dropped(cls):
        response = cls()
        response.is_dropped = True
        return response


async def read_request(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ", 2)
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, target, headers, body)


def encode(response):
    phrase = HTTPStatus(response.status).phrase
    head = [f"HTTP/1.1 {response.status} {phrase}", f"Content-Length: {len(response.body)}"]
    head += [f"{name}: {value}" for name, value in response.headers.items()]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + response.body


async def serve(answer, port=0):
    """The running server and its URL; `answer` makes a Response of a Request."""

    async def on_connection(reader, writer):
        try:
            while True:
                response = await answer(await read_request(reader))
                if response.is_dropped:
                    break
                writer.write(encode(response))
                await writer.drain()
                if response.headers.get("Connection") == "close":
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away
        finally:
            writer.close()

    server = await asyncio.start_server(on_connection, "127.0.0.1", port, limit=1 << 26, backlog=4096)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
