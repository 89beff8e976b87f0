"""The official SDK with a proxy before the server that loses, refuses, cuts and delays what passes, at random: every future
ends, what it ends with is what an undisturbed client gets, and no token is trained twice.

TINKER_FAULTS_SEED says which requests meet a fault.
"""

import asyncio
import os
import random
import threading
import urllib.parse
import urllib.request

import tinker
from batches import *
from case import *
from tinker import types

SHARE = 0.25  # of the requests meet a fault
SPARED = ("session_heartbeat", "telemetry")  # the client sends them when it likes: they would change which requests meet one
FAILURE = b'HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{"detail":"x"}'


class FaultProxy:
    """Carries HTTP/1.1 to a server on a loop of its own; `url` says where it listens. `met` counts faults by their names."""

    def __init__(self, url, seed):
        self.server = urllib.parse.urlsplit(url)
        self.random = random.Random(seed)
        self.met = dict.fromkeys((
            "lost_request", "refused_request", "lost_answer", "broken_answer", "cut_answer", "late_answer", "twice",
        ), 0)  # fmt: skip
        self.loop = asyncio.new_event_loop()
        listening = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(listening,), daemon=True)
        self.thread.start()
        listening.wait()

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def _run(self, listening):
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(lambda *_: None)  # connections that break are what this is for
        listener = self.loop.run_until_complete(asyncio.start_server(self._carry, "127.0.0.1", 0, limit=1 << 24))
        self.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        listening.set()
        self.loop.run_forever()

    def _next_fault(self, head):
        path = head.split(b" ", 2)[1].decode()
        if path.rsplit("/", 1)[-1] in SPARED or self.random.random() >= SHARE:
            return None
        fault = self.random.choice(list(self.met))
        self.met[fault] += 1
        return fault

    async def _carry(self, reader, writer):
        try:
            while request := await self._read_message(reader):
                fault = self._next_fault(request)
                if fault == "lost_request":
                    return writer.transport.abort()
                if fault == "refused_request":
                    writer.write(FAILURE % b"503 Service Unavailable")
                    continue
                if fault == "twice":
                    await self._ask(request)
                answer = await self._ask(request)
                if fault == "lost_answer":
                    return writer.transport.abort()
                if fault == "cut_answer":
                    writer.write(answer[:-3])
                    await writer.drain()
                    return writer.close()
                if fault == "late_answer":
                    await asyncio.sleep(0.3)
                writer.write(FAILURE % b"500 Internal Server Error" if fault == "broken_answer" else answer)
                await writer.drain()
        finally:
            writer.close()

    async def _ask(self, request):
        reader, writer = await asyncio.open_connection(self.server.hostname, self.server.port, limit=1 << 24)
        writer.write(request)
        answer = await self._read_message(reader)
        writer.close()
        return answer

    @staticmethod
    async def _read_message(reader):
        """Head and body; nothing at the end of the connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return b""
        fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
        if fields.get(b"transfer-encoding", b"").strip() == b"chunked":
            message, size = head, None
            while size != 0:
                line = await reader.readuntil(b"\r\n")
                size = int(line, 16)
                message += line + await reader.readexactly(size + 2)
            return message
        return head + await reader.readexactly(int(fields.get(b"content-length", b"0")))


def live(url):
    """What a client gets that does a little of everything."""
    service = tinker.ServiceClient(base_url=url)
    training = service.create_lora_training_client(BASE_MODEL, rank=4, seed=7)
    losses = train(training, 3)
    path = training.save_state("kept").result().path
    training.save_weights_for_sampler("kept").result()
    losses += train(training, 2)
    resumed = service.create_training_client_from_state_with_optimizer(path)
    losses += train(resumed, 2)
    resumed.load_state(path).result()
    rows = [row.tolist() for row in fingerprint(resumed)]
    sampling = training.save_weights_and_get_sampling_client()
    waiting = [
        sampling.sample(text(5, 9, 12), 2, types.SamplingParams(max_tokens=4, seed=seed, stop=[])) for seed in range(8)
    ]
    drawn = [[list(sequence.tokens) for sequence in each.result().sequences] for each in waiting]
    listed = service.create_rest_client().list_checkpoints(training.model_id).result().checkpoints
    return {"losses": losses, "rows": rows, "drawn": drawn, "kept": sorted(each.checkpoint_id for each in listed)}


def tokens_done(url):
    """Those that the server has trained with and drawn."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    values = {"training": 0.0, "sample": 0.0}
    for line in lines:
        for kind in values:
            if line.startswith("tinker_server_tokens_total{") and f'kind="{kind}"' in line:
                values[kind] += float(line.rsplit(" ", 1)[1])
    return values


class Faults(ServedCase):
    OPTIONS = ("--dtype", "f32", "--threads", "1", "--flag", "fwdbwd_max_chunk_len=2")

    def test_nothing_is_lost_and_nothing_is_done_twice(self):
        seed = int(os.environ.get("TINKER_FAULTS_SEED", random.randrange(10**6)))
        undisturbed = live(self.server.url)
        once = tokens_done(self.server.url)
        proxy = FaultProxy(self.server.url, seed)
        with self.subTest(TINKER_FAULTS_SEED=seed):
            self.assertEqual(live(proxy.url), undisturbed)
            self.assertGreater(sum(proxy.met.values()), 0)
            self.assertEqual(tokens_done(self.server.url), {kind: 2 * count for kind, count in once.items()})
        proxy.close()


if __name__ == "__main__":
    main()
