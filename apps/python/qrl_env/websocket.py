"""A WebSocket client (RFC 6455) for messages of text."""
import base64
import contextlib
import hashlib
import os
import socket
import ssl
import struct
import urllib.parse

KEY_SUFFIX = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, CLOSE, PING, PONG, CONTINUED = 1, 8, 9, 10, 0


class WebSocket:
    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        is_secure = parts.scheme == "wss"
        self.socket = socket.create_connection((parts.hostname, parts.port or (443 if is_secure else 80)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_secure:
            self.socket = ssl.create_default_context().wrap_socket(self.socket, server_hostname=parts.hostname)
        self.stream = self.socket.makefile("rb")
        self.shake_hands(parts)

    def shake_hands(self, parts):
        key = base64.b64encode(os.urandom(16)).decode()
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self.socket.sendall((f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        status, headers = self.stream.readline().decode("latin-1").strip(), {}
        while line := self.stream.readline().decode("latin-1").strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        expected = base64.b64encode(hashlib.sha1((key + KEY_SUFFIX).encode()).digest()).decode()
        if " 101" not in status or headers.get("sec-websocket-accept") != expected:
            raise ConnectionError(f"{parts.netloc}{path} is no WebSocket: it answered {status!r}")

    def frame(self, kind, payload):
        mask, size = os.urandom(4), len(payload)
        length = bytes([0x80 | size]) if size < 126 else struct.pack(">BH", 0xFE, size) if size < 1 << 16 else struct.pack(">BQ", 0xFF, size)
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes((mask * (size // 4 + 1))[:size], "big")).to_bytes(size, "big")
        self.socket.sendall(bytes([0x80 | kind]) + length + mask + masked)

    def send(self, text):
        self.frame(TEXT, text.encode("utf-8", "replace"))

    def read(self, size):
        data = self.stream.read(size)
        if len(data) < size:
            raise ConnectionError("the server closed the connection")
        return data

    def receive(self):
        """Returns the next message. Raises ConnectionError at the end of the connection."""
        message = b""
        while True:
            first, second = self.read(2)
            kind, size = first & 0x0F, second & 0x7F
            size = struct.unpack(">H", self.read(2))[0] if size == 126 else struct.unpack(">Q", self.read(8))[0] if size == 127 else size
            payload = self.read(size)
            if kind == CLOSE:
                raise ConnectionError(f"the server closed the connection {payload[2:].decode('utf-8', 'replace')}".strip())
            if kind == PING:
                with contextlib.suppress(BrokenPipeError):  # what was sent before is still to be read
                    self.frame(PONG, payload)
            if kind in (TEXT, CONTINUED):
                message += payload
                if first & 0x80:
                    return message.decode("utf-8", "replace")

    def close(self):
        self.socket.close()
