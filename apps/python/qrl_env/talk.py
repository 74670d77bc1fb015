"""Speaks the protocol of environments (docs/reference/environment-protocol.md): a thread for each of the conversations that run at once."""
import concurrent.futures
import json
import os
import queue
import threading

from qrl_reward_file import cut, traceback_of, words_of

MOST_BYTES = (4 << 20) - 1024  # of a line, with its id


class Environment:
    """Holds what an adapter makes: the fields of `ready`, a function that makes a player of conversations, and perhaps its rows.

    A player has begin(start) -> text or None, step(message) -> answer, and perhaps end(message) -> answer and close(). It plays one
    conversation after another, always on one thread.
    """

    def __init__(self, ready, new, row=None):
        self.ready, self.new, self.row = ready, new, row


def told(error, start, message):
    """Returns an error in one line, with the columns of the row, its prompt and the turn."""
    turn = f", turn {message['turn']} {cut(message['text'], 40)}" if "turn" in message else ""
    hint = " (set environment.sessions: 1, then it runs in the main thread)" if "main thread" in str(error) else ""
    return f"{words_of(error)}{hint}; columns of the row: {', '.join(sorted(start['row'])) or 'none'}; prompt {cut(start['prompt'], 60)}{turn}"


class Worker:
    """Runs functions one after another on a thread of its own."""

    def __init__(self):
        self.jobs = queue.SimpleQueue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while True:
            self.jobs.get()()

    def call(self, function):
        """Returns what the function returns on the thread, or raises what it raises."""
        future = concurrent.futures.Future()

        def job():
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        self.jobs.put(job)
        return future.result()


class Threads:
    """Holds the thread of the first conversations. With sessions: 1 there is none, and all runs in the main thread."""

    first = None


def on_first_thread(function):
    return Threads.first.call(function) if Threads.first else function()


class Slot:
    """Plays one conversation at a time, always on the same thread."""

    def __init__(self, environment, write, worker):
        self.environment, self.write, self.worker, self.player, self.start = environment, write, worker, None, None

    def play(self, kind, message):
        if kind == "start":
            self.start = message
            self.player = self.player or self.environment.new()
            return {"observation": self.player.begin(message)}
        if kind == "step":
            return self.player.step(message)
        end = getattr(self.player, "end", None)
        return end(message) if end else {"done": True, **zeros(self.environment)}

    def answer(self, kind, message):
        try:
            answer = self.play(kind, message)
            size = len(json.dumps(answer, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"))
            if size > MOST_BYTES:
                raise ValueError(f"an answer may have {MOST_BYTES} bytes, got {size}")
            return answer
        except MemoryError:
            os._exit(1)  # as a program that the system ended: a fresh one has memory again
        except Exception as error:
            trace = traceback_of(error)
            self.player = None  # its state is unknown
            return {"error": told(error, self.start, message), **({"traceback": trace} if trace else {})}

    def handle(self, kind, message, free):
        """Answers a message. Calls free() before the answer that ends the conversation."""
        def job():
            answer = self.answer(kind, message)
            if "error" in answer or answer.get("done"):
                free()
            turn = {"turn": message["turn"]} if kind == "step" else {}
            self.write({"id": message["id"], **turn, **answer})

        self.worker.jobs.put(job) if self.worker else job()


def zeros(environment):
    """Returns a 0 for each score: it adds nothing to the scores of earlier steps."""
    scores = environment.ready.get("scores")
    return {"scores": dict.fromkeys(scores, 0.0)} if scores else {}


def answer_row(environment, message):
    try:
        return {"row": environment.row(message["set"], message["index"])}
    except Exception as error:
        return {"error": f"row {message['index']} of {message['set']}: {words_of(error)}"}


def talk(source, write, environment):
    """Answers lines until their end."""
    write({"ready": {"protocol": 1, **{name: value for name, value in environment.ready.items() if value}}})
    first = Slot(environment, write, Threads.first)
    on_first_thread(lambda: setattr(first, "player", environment.new()))  # it has what was made to look at
    idle, active, lock = [first], {}, threading.Lock()

    def free(number):
        with lock:
            idle.append(active.pop(number))

    for line in source:
        (kind, message), = json.loads(line).items()
        number = message["id"]
        if kind == "row":
            write({"id": number, **answer_row(environment, message)})
            continue
        if kind == "start":
            with lock:
                active[number] = idle.pop() if idle else Slot(environment, write, Worker() if Threads.first else None)
        active[number].handle(kind, message, lambda number=number: free(number))
