"""`./dev bench http_server`: small requests to our server half, to a plain Beast server and to nginx with a tiny static
file, by the same load generator (h2load, of Debian's nghttp2-client). Each server has one thread on one core, the
generator another core. What counts is how many requests a second of the server's CPU time answers."""

import contextlib
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import tempfile
import time

REQUESTS = 150_000
CONNECTIONS = 64
STREAMS = 10  # at a time, of each HTTP/2 connection
IDLE_CONNECTIONS = 10_000

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
  open_file_cache max=10;
  sendfile on;
  tcp_nodelay on;
  root {folder}/www;
  server {{ listen 127.0.0.1:{h1}; }}
  server {{ listen 127.0.0.1:{h2} http2; }}
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
def program(path, core):
    """{protocol: port} and process id of one of our programs."""
    process = pinned(core, [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = int(process.stdout.readline())
        yield {"h1": port, "h2": port}, process.pid
    finally:
        process.stdin.close()
        process.wait()


@contextlib.contextmanager
def nginx(core):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        (folder / "www").mkdir()
        (folder / "www" / "index.html").write_text("hello, world")
        ports = {"h1": free_port(), "h2": free_port()}
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, **ports))
        process = pinned(core, [find("nginx"), "-c", folder / "nginx.conf", "-p", folder], stderr=subprocess.DEVNULL)
        try:
            yield ports, wait_for_worker(process.pid, ports["h1"])
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


def load(protocol, port, pid, core):
    """Requests per second, and per second of the server's CPU time."""
    flags = ["--h1"] if protocol == "h1" else ["-m", STREAMS]
    url = f"http://127.0.0.1:{port}/"
    command = ["h2load", *flags, "-n", REQUESTS, "-c", CONNECTIONS, url]
    before, start = cpu_seconds(pid), time.monotonic()
    process = pinned(core, command, stdout=subprocess.PIPE, text=True)
    output = process.communicate()[0]
    seconds, cpu = time.monotonic() - start, cpu_seconds(pid) - before
    if f"{REQUESTS} succeeded, 0 failed" not in output:
        raise RuntimeError(f"h2load: not all requests succeeded:\n{output}")
    return REQUESTS / seconds, REQUESTS / cpu


def best(runs):
    """The run with the least CPU per request: a busy moment of the machine does not decide."""
    return max(runs, key=lambda run: run[1])


def resident_bytes(pid):
    pages = pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def idle_bytes(port, pid):
    """What a connection costs that was used once and is kept."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    connections = []

    def ask_all(count):
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            if not connection.recv(4096).endswith(b"hello, world"):
                raise RuntimeError("an answer is not the one expected")
            connections.append(connection)

    ask_all(100)  # buffers that all share
    before = resident_bytes(pid)
    ask_all(IDLE_CONNECTIONS)
    cost = (resident_bytes(pid) - before) / IDLE_CONNECTIONS
    for connection in connections:
        connection.close()
    return cost


def measure(build_dir, make_row, rounds):
    if not shutil.which("h2load"):
        print("bench http_server: skipped, there is no h2load (Debian: nghttp2-client)")
        return []
    server_core, load_core = cores()
    programs = {"tinker": lambda: program(build_dir / "bin" / "http_server_bench", server_core)}
    programs["beast"] = lambda: program(build_dir / "bin" / "beast_server", server_core)
    if find("nginx"):
        programs["nginx"] = lambda: nginx(server_core)
    runs = {}
    for _ in range(rounds):
        for name, start in programs.items():
            with start() as (ports, pid):
                for protocol in ["h1"] if name == "beast" else ["h1", "h2"]:
                    runs.setdefault((protocol, name), []).append(load(protocol, ports[protocol], pid, load_core))
    rows = []
    for protocol in ("h1", "h2"):
        ours = best(runs[protocol, "tinker"])
        for peer in ("beast", "nginx"):
            if (protocol, peer) not in runs:
                continue
            theirs = best(runs[protocol, peer])
            label = f"{protocol} beside {peer}"
            rows.append(make_row(f"{label}, requests", ours[0], "req/s", peer, theirs[0]))
            rows.append(make_row(f"{label}, requests per CPU second", ours[1], "req/s", peer, theirs[1]))
            rows.append(make_row(f"{label}, CPU per request", 1e6 / ours[1], "us", peer, 1e6 / theirs[1]))
    with programs["tinker"]() as (ports, pid):
        rows.append(make_row(f"{IDLE_CONNECTIONS} idle connections, each", idle_bytes(ports["h1"], pid), "bytes", None, None))
    return rows
