"""A hub on this machine: repositories with commits, files in Git or in storage of their own, and faults on request."""

import hashlib
import http.server
import json
import ssl
import threading
import time
import urllib.parse


def git_name(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Repository:
    """Files by commit; `large` ones are in storage, to which the hub redirects."""

    def __init__(self):
        self.commits = {}
        self.refs = {}
        self.large = set()
        self.token = None  # needed to see it
        self.gated = False

    def commit(self, files, ref="main"):
        name = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits[name] = dict(files)
        self.refs[ref] = name
        return name


class HubServer:
    """Serves until the `with` block ends, with TLS if there is a certificate (a file of it and its key). Faults are counted down as
    answers with a body meet them."""

    def __init__(self, certificate=None):
        self.certificate = certificate
        self.repositories = {}
        self.requests = []  # (where, method, path, headers)
        self.cut = []  # how many bytes of the body each of the next answers brings
        self.damaged = 0  # how many of the next bodies have a wrong byte
        self.failing = 0  # how many of the next requests are answered 503
        self.pause_s = 0.0  # before each piece of a body
        self.headers = {}  # instead of what the hub would say
        self.ignores_range = False
        self.sizes = {}  # what listings say, by name, instead of the truth
        self._lock = threading.Lock()
        self._servers = {}
        self.storage = {}  # content by its path there

    def __enter__(self):
        for where in ("hub", "storage"):
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, where))
            server.daemon_threads = True
            if self.certificate:
                tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                tls.load_cert_chain(self.certificate)
                server.socket = tls.wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            self._servers[where] = server
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def url(self, where="hub"):
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://127.0.0.1:{self._servers[where].server_address[1]}"

    def add(self, name):
        return self.repositories.setdefault(name, Repository())

    def bodies_sent(self, name):
        """Requests for more than a look at a file."""
        return [r for r in self.requests if r[2].endswith("/" + name) and r[3].get("Range") != "bytes=0-0" and r[1] == "GET"]

    def take_fault(self):
        with self._lock:
            cut = self.cut.pop(0) if self.cut else None
            damaged = self.damaged > 0
            self.damaged -= damaged
            return cut, damaged


def _handler(hub, where):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_HEAD(self):
            self.answer()

        def do_GET(self):
            self.answer()

        def answer(self):
            path = urllib.parse.unquote(self.path.split("?")[0])
            hub.requests.append((where, self.command, path, dict(self.headers)))
            if hub.failing > 0:
                hub.failing -= 1
                return self.refuse(503, "", "")
            if where == "storage":
                return self.send_content(hub.storage[path], {})
            if path.startswith("/api/models/"):
                return self.send_listing(*path.removeprefix("/api/models/").split("/revision/"))
            head, _, rest = path[1:].partition("/resolve/")
            revision, _, name = rest.partition("/")
            repository = hub.repositories.get(head)
            token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            if repository is None or (repository.token and token != repository.token and not repository.gated):
                return self.refuse(401 if not token else 404, "RepoNotFound", "Repository not found")
            if repository.gated and token != repository.token:
                return self.refuse(401 if not token else 403, "GatedRepo", f"Access to model {head} is restricted.")
            commit = repository.refs.get(revision, revision)
            if commit not in repository.commits:
                return self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            content = repository.commits[commit].get(name)
            about = {"X-Repo-Commit": commit, **hub.headers}
            if content is None:
                return self.refuse(404, "EntryNotFound", "Entry not found", about)
            if name in repository.large:
                digest = hashlib.sha256(content).hexdigest()
                hub.storage[f"/{digest}"] = content
                about = {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content)), **about}
                return self.send_head(302, {"Location": f"{hub.url('storage')}/{digest}?signed=1", "Content-Length": "0", **about})
            return self.send_content(content, {"ETag": f'"{git_name(content)}"', **about})

        def send_listing(self, name, revision):
            """Everybody may see what is in a gated repository."""
            repository = hub.repositories.get(name)
            token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            if repository is None or (repository.token and token != repository.token and not repository.gated):
                return self.refuse(401 if not token else 404, "RepoNotFound", "Repository not found")
            commit = repository.refs.get(revision, revision)
            if commit not in repository.commits:
                return self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            files = repository.commits[commit].items()
            siblings = [{"rfilename": f, "blobId": git_name(c), "size": hub.sizes.get(f, len(c))} for f, c in files]
            body = json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode()
            self.send_head(200, {"Content-Type": "application/json", "Content-Length": str(len(body))})
            self.wfile.write(body)

        def refuse(self, status, kind, message, extra=None):
            headers = {"Content-Length": "0", **(extra or {})}
            if kind:
                headers |= {"X-Error-Code": kind, "X-Error-Message": message}
            self.send_head(status, headers)

        def send_head(self, status, headers):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def send_content(self, content, headers):
            total = len(content)
            begin, end, status = 0, total, 200
            wanted = self.headers.get("Range")
            if wanted and not hub.ignores_range:
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                begin, end, status = int(first), min(int(last) + 1 if last else total, total), 206
                if begin >= total:
                    return self.send_head(416, {"Content-Range": f"bytes */{total}", "Content-Length": "0", **headers})
                headers = {"Content-Range": f"bytes {begin}-{end - 1}/{total}", **headers}
            body = content[begin:end]
            self.send_head(status, {"Content-Length": str(len(body)), **headers})
            if self.command == "HEAD":
                return
            cut, damaged = hub.take_fault() if wanted != "bytes=0-0" else (None, False)
            if damaged:
                body = body[:-1] + bytes([body[-1] ^ 1])
            if cut is not None:
                body = body[:cut]
                self.close_connection = True
            try:
                for at in range(0, len(body), 1 << 16):
                    time.sleep(hub.pause_s)
                    self.wfile.write(body[at : at + (1 << 16)])
            except OSError:
                self.close_connection = True

    return Handler
