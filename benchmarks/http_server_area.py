"""`./dev bench http_server`: small requests to our server half, to a plain Beast server and to nginx with a tiny static
file, by the same load generator (h2load, of Debian's nghttp2-client). Each server has one thread on one core, the
generator another core. What counts is how many requests a second of the server's CPU time answers. Then the memory of
connections that were used once and are kept idle, of ours and nginx."""

import contextlib
import os
import pathlib
import resource
import shutil
import socket
import ssl
import subprocess
import tempfile
import time

REQUESTS = 150_000
CONNECTIONS = 64
STREAMS = 10  # at a time, of each HTTP/2 connection
GOAL = 0.9  # of what the better peer does
FIGURES = (  # of a run, as `load` returns it
    ("requests", "req/s", lambda run: run[0]),
    ("requests per CPU second", "req/s", lambda run: run[1]),
    ("CPU per request", "us", lambda run: 1e6 / run[1]),
)

# How many idle connections, by protocol. Fewer with TLS, as each takes a handshake.
IDLE = {"h1": 10_000, "h2": 10_000, "h1 and TLS": 2_000}
IDLE_GOAL_BYTES = 10_000
H1_REQUEST = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
# HTTP/2 by prior knowledge: preface, SETTINGS, HEADERS of stream 1 (RFC 9113, RFC 7541).
H2_REQUEST = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    b"\0\0\0\4\0\0\0\0\0"
    b"\0\0\6\1\5\0\0\0\1\x82\x84\x86\x41\1h"
)
H2_SETTINGS_ACK = b"\0\0\0\4\1\0\0\0\0"

NGINX = """
daemon off;
worker_processes 1;
error_log {folder}/error.log;
pid {folder}/pid;
events {{ worker_connections 20000; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 100000000;
  keepalive_timeout 3600s;
  open_file_cache max=10;
  sendfile on;
  tcp_nodelay on;
  root {folder}/www;
  server {{ listen 127.0.0.1:{h1}; }}
  server {{ listen 127.0.0.1:{h2} http2; }}
  server {{ listen 127.0.0.1:{tls} ssl; ssl_certificate {certificate}; ssl_certificate_key {key}; }}
}}
"""


def cores():
    """A core for the server and one for the generator; the same where there is only one."""
    there = sorted(os.sched_getaffinity(0))
    return there[0], there[-1]


def pinned(core, command, **options):
    return subprocess.Popen(["taskset", "--cpu-list", str(core), *map(str, command)], **options)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def identity():
    """Files of a certificate and its key."""
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = f"{folder}/certificate.pem", f"{folder}/key.pem"
        make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -days 1"
        subprocess.run([*make.split(), "-out", certificate, "-keyout", key], check=True, capture_output=True)
        yield certificate, key


@contextlib.contextmanager
def program(core, path, *arguments):
    """{protocol: port} and process id of one of our programs, which print a port, then maybe one with TLS."""
    process = pinned(core, [path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = int(process.stdout.readline())
        ports = {"h1": port, "h2": port}
        if arguments:
            ports["h1 and TLS"] = int(process.stdout.readline())
        yield ports, process.pid
    finally:
        process.stdin.close()
        process.wait()


@contextlib.contextmanager
def nginx(core, certificate, key):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        (folder / "www").mkdir()
        (folder / "www" / "index.html").write_text("hello, world")
        h1, h2, tls = free_port(), free_port(), free_port()
        text = NGINX.format(folder=folder, h1=h1, h2=h2, tls=tls, certificate=certificate, key=key)
        (folder / "nginx.conf").write_text(text)
        process = pinned(core, [find("nginx"), "-c", folder / "nginx.conf", "-p", folder], stderr=subprocess.DEVNULL)
        try:
            yield {"h1": h1, "h2": h2, "h1 and TLS": tls}, wait_for_worker(process.pid, h1)
        finally:
            process.terminate()
            process.wait()


def find(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")


def wait_for_worker(master, port):
    for _ in range(500):
        with contextlib.suppress(OSError, IndexError):
            socket.create_connection(("127.0.0.1", port)).close()
            return int(pathlib.Path(f"/proc/{master}/task/{master}/children").read_text().split()[0])
        time.sleep(0.01)
    raise RuntimeError("nginx does not start")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(protocol, port, pid, core, path="/", options=()):
    """Requests per second, and per second of the server's CPU time."""
    flags = ["--h1"] if protocol == "h1" else ["-m", STREAMS]
    url = f"http://127.0.0.1:{port}{path}"
    command = ["h2load", *flags, *options, "-n", REQUESTS, "-c", CONNECTIONS, url]
    before, start = cpu_seconds(pid), time.monotonic()
    process = pinned(core, command, stdout=subprocess.PIPE, text=True)
    output = process.communicate()[0]
    seconds, cpu = time.monotonic() - start, cpu_seconds(pid) - before
    if f"{REQUESTS} succeeded, 0 failed" not in output:
        raise RuntimeError(f"h2load: not all requests succeeded:\n{output}")
    return REQUESTS / seconds, REQUESTS / cpu


def resident_bytes(pid):
    pages = pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def used_connection(protocol, port):
    """A connection that has answered one request."""
    connection = socket.create_connection(("127.0.0.1", port))
    if protocol == "h1 and TLS":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = context.wrap_socket(connection)
    connection.sendall(H2_REQUEST if protocol == "h2" else H1_REQUEST)
    answer = b""
    while not answer.endswith(b"hello, world"):
        part = connection.recv(4096)
        if not part:
            raise RuntimeError(f"an answer is not the one expected: {answer}")
        answer += part
    if protocol == "h2":
        connection.sendall(H2_SETTINGS_ACK)
    return connection


def idle_bytes(protocol, port, pid):
    """What a connection costs that was used once and is kept."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with contextlib.ExitStack() as connections:

        def use(count):
            for _ in range(count):
                connections.enter_context(used_connection(protocol, port))

        use(100)  # buffers that all share
        before = resident_bytes(pid)
        use(IDLE[protocol])
        return (resident_bytes(pid) - before) / IDLE[protocol]


def verdict(is_met, goal):
    return f"goal {goal}: {'met' if is_met else 'missed'}"


def load_rows(runs, make_row):
    """Each figure is the best of its runs: a busy moment of the machine does not decide. The row of the peer that does
    better has the verdict."""
    for protocol in ("h1", "h2"):
        best = {name: [max(figure) for figure in zip(*each)] for (of, name), each in runs.items() if of == protocol}
        ours = best.pop("tinker")
        for what, unit, value in FIGURES:
            rows = []
            for peer, theirs in best.items():
                rows.append(make_row(f"{protocol} beside {peer}, {what}", value(ours), unit, peer, value(theirs)))
            lowest = min(rows, key=lambda row: row["ratio"], default=None)
            if lowest:
                lowest["verdict"] = verdict(lowest["ratio"] >= GOAL, f"{GOAL}x of the better peer")
            yield from rows


def idle_rows(programs, make_row):
    for protocol, count in IDLE.items():
        cost = {}
        for name in programs.keys() - {"beast"}:
            with programs[name]() as (ports, pid):
                cost[name] = idle_bytes(protocol, ports[protocol], pid)
        peer = "nginx" if "nginx" in cost else None
        row = make_row(f"{count} idle connections over {protocol}, each", cost["tinker"], "bytes", peer, cost.get(peer))
        yield row | {"verdict": verdict(cost["tinker"] <= IDLE_GOAL_BYTES, f"{IDLE_GOAL_BYTES} bytes")}


def measure(build_dir, make_row, rounds):
    if not shutil.which("h2load"):
        print("bench http_server: skipped, there is no h2load (Debian: nghttp2-client)")
        return []
    server_core, load_core = cores()
    with identity() as files:
        programs = {"tinker": lambda: program(server_core, build_dir / "bin" / "http_server_bench", *files)}
        programs["beast"] = lambda: program(server_core, build_dir / "bin" / "beast_server")
        if find("nginx"):
            programs["nginx"] = lambda: nginx(server_core, *files)
        runs = {}
        for _ in range(rounds):
            for name, start in programs.items():
                with start() as (ports, pid):
                    for protocol in ["h1"] if name == "beast" else ["h1", "h2"]:
                        runs.setdefault((protocol, name), []).append(load(protocol, ports[protocol], pid, load_core))
        return [*load_rows(runs, make_row), *idle_rows(programs, make_row)]
