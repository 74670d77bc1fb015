"""A page in Debian's chromium-headless-shell, spoken to over two pipes (DevTools' protocol: JSON that ends in a zero byte).

A library of scripts/science/make_pictures, not a command.
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess

PROGRAM = "chromium-headless-shell"


def is_here():
    return shutil.which(PROGRAM) is not None


def why_not():
    """Why there is no browser. Ubuntu's package of the name only starts a snap."""
    ubuntu = "\nID=ubuntu" in "\n" + pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
    return f"no {PROGRAM} here" + (", and none in Ubuntu's packages" if ubuntu else ": scripts/setup --tests")


class Page:
    """An open page. `options`: more of the browser's own."""

    def __init__(self, url, *options):
        to_read, self.write_fd = os.pipe()
        self.read_fd, to_write = os.pipe()

        def numbered():  # the browser reads file 3 and writes file 4
            os.dup2(to_read, 100)
            os.dup2(to_write, 101)
            os.dup2(100, 3)
            os.dup2(101, 4)

        self.process = subprocess.Popen([PROGRAM, "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", *options],
                                        close_fds=False, preexec_fn=numbered, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.number, self.session = b"", 0, None
        target = self.send("Target.createTarget", url=url)["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, method, **parameters):
        """Sends a command; its result. Events in between are left out. RuntimeError where it fails."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters} | ({"sessionId": self.session} if self.session else {})
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.buffer:
                received = os.read(self.read_fd, 1 << 16)
                if not received:
                    raise RuntimeError(f"{PROGRAM} ended")
                self.buffer += received
            line, self.buffer = self.buffer.split(b"\0", 1)
            answer = json.loads(line)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{PROGRAM}: {method}: {answer['error']}")
                return answer["result"]

    def value(self, expression):
        """What an expression of JavaScript gives, as Python's value."""
        return self.send("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def picture(self, box):
        """PNG of {x, y, width, height} in the page's pixels."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip={**box, "scale": 1})
        return base64.b64decode(shot["data"])

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.write_fd)
        os.close(self.read_fd)
