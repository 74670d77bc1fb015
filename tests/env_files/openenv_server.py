"""A server with OpenEnv's HTTP schema and WebSocket messages, of the standard library: a game of text, or tools."""
import base64
import hashlib
import http.server
import json
import socketserver
import struct
import threading
import time

KEY_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT = {"action": {"properties": {"metadata": {"type": "object"}, "message": {"type": "string"}}},
        "observation": {"properties": {"done": {}, "reward": {}, "metadata": {}, "echoed": {"type": "string"}, "length": {"type": "integer"}}}}
TOOLS = {"action": {"properties": {"type": {}, "tool_name": {"type": "string"}, "arguments": {"type": "object"}}}, "observation": {"properties": {}}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/schema":
            body = json.dumps(TOOLS if self.server.has_tools else TEXT).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        elif self.path == "/ws":
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            key = self.headers["Sec-WebSocket-Key"].encode()
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key + KEY_SUFFIX).digest()).decode())
            self.end_headers()
            self.talk()

    def receive(self):
        head = self.rfile.read(2)
        if len(head) < 2 or head[0] & 15 == 8:
            return None
        size = head[1] & 127
        size = struct.unpack(">H", self.rfile.read(2))[0] if size == 126 else struct.unpack(">Q", self.rfile.read(8))[0] if size == 127 else size
        mask, data = self.rfile.read(4), self.rfile.read(size)
        if head[0] & 15 == 10:  # the answer to a ping
            return self.receive()
        return json.loads(bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)))

    def frame(self, first, data):
        size = len(data)
        length = bytes([size]) if size < 126 else struct.pack(">BH", 126, size) if size < 1 << 16 else struct.pack(">BQ", 127, size)
        self.wfile.write(bytes([first]) + length + data)

    def send(self, kind, data):
        line = json.dumps({"type": kind, "data": data}).encode()
        self.frame(0x89, b"ping")
        self.frame(0x01, line[:5])  # in two parts
        self.frame(0x80, line[5:])

    def observe(self, observation, reward=None, done=False):
        self.send("observation", {"observation": {**observation, "metadata": {}}, "reward": reward, "done": done})

    def talk(self):
        self.close_connection = True
        with self.server.lock:
            self.server.open += 1
            is_full = self.server.open > self.server.most
        if is_full:
            self.send("error", {"message": "Server at capacity", "code": "CAPACITY_REACHED"})
        else:
            while (message := self.receive()) is not None:
                self.play(message["type"], message["data"])
        time.sleep(0.2)  # a server is slow to see that a client has closed
        with self.server.lock:
            self.server.open -= 1

    def play(self, kind, data):
        if kind == "reset":
            self.seed, self.steps = data.get("seed", 0), 0
            self.observe({} if self.server.has_tools else {"echoed": f"seed {self.seed}", "length": 0})
        elif data.get("type") == "list_tools":
            self.observe({"tools": [{"name": "add", "description": "Adds.", "input_schema": {
                "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}]})
        elif data.get("type") == "call_tool":
            self.steps += data["arguments"].get("a", 0)
            error = None if "a" in data["arguments"] else {"error_type": "invalid_args", "message": "a is missing"}
            self.observe({"tool_name": "add", "result": {"data": self.steps}, "error": error}, float(self.steps), self.steps >= 5)
        elif "refuse" in data["message"]:
            self.send("error", {"message": "Invalid message", "code": "VALIDATION_ERROR", "errors": ["no"]})
        else:
            self.observe({"echoed": data["message"], "length": len(data["message"])}, len(data["message"]) / 10, data["message"] == "stop")


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def __init__(self, has_tools, most):
        super().__init__(("127.0.0.1", 0), Handler)
        self.has_tools, self.most, self.open, self.lock = has_tools, most, 0, threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}"
