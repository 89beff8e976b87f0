#!/usr/bin/env python3
"""Proves that no include and no CMake link points upwards.

    tools/check_layers.py [ROOT]       prints a line per violation; exit status 1 if there is any
    tools/check_layers.py --self-test  shows that each kind of violation is caught
"""

import posixpath
import re
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Iterator, NamedTuple

# What each layer stands on. What those stand on may be used as well; nothing else may.
LAYERS = {
    "base": [],
    "types": ["base"],
    "async": ["base"],
    "http": ["async"],
    "wire": ["types"],
    "formats": ["base"],
    "loss": ["types"],
    "api": ["http"],
    "telemetry": ["api", "wire"],
    "session": ["telemetry"],
    "tokenizer": ["formats"],
    "client": ["session", "loss", "tokenizer"],
    "engine": ["formats", "loss"],
    "server": ["engine", "wire", "http", "tokenizer"],
    "cli": ["client", "server"],
    # Header-only parts of the public API.
    "adapters": ["types"],
    "testing": ["types", "http"],
}

# Files that may use one layer more than the rest of their folder.
EXCEPTIONS = {
    "src/tokenizer/hub*": "http",
    "include/tinker/hub.h": "http",
    # The installed library holds the engine, and the umbrella header its API; the clients know neither.
    "src/client/CMakeLists.txt": "engine",
    "include/tinker/tinker.h": "engine",
}

# Each public header belongs to the layer that holds its body.
PUBLIC_HEADERS = {
    "include/tinker/call_options.h": "base",
    "include/tinker/check.h": "base",
    "include/tinker/circuit_breaker.h": "base",
    "include/tinker/clock.h": "base",
    "include/tinker/detail/mutex.h": "base",
    "include/tinker/download.h": "client",
    "include/tinker/engine.h": "engine",
    "include/tinker/error.h": "base",
    "include/tinker/event_log.h": "telemetry",
    "include/tinker/events.h": "base",
    "include/tinker/executor.h": "base",
    "include/tinker/future.h": "async",
    "include/tinker/http.h": "http",
    "include/tinker/hub.h": "tokenizer",
    "include/tinker/log.h": "base",
    "include/tinker/loss.h": "loss",
    "include/tinker/losses.h": "loss",
    "include/tinker/loss_handle.h": "client",
    "include/tinker/metrics.h": "telemetry",
    "include/tinker/result.h": "base",
    "include/tinker/retry_config.h": "session",
    "include/tinker/rng.h": "base",
    "include/tinker/runtime.h": "async",
    "include/tinker/admin_client.h": "client",
    "include/tinker/auth.h": "client",
    "include/tinker/checkpoint_keeper.h": "client",
    "include/tinker/recoverable_trainer.h": "client",
    "include/tinker/recovery.h": "client",
    "include/tinker/rest_client.h": "client",
    "include/tinker/sampling_client.h": "client",
    "include/tinker/secret.h": "base",
    "include/tinker/service_client.h": "client",
    "include/tinker/tokenizer.h": "tokenizer",
    "include/tinker/training_client.h": "client",
    "include/tinker/trace_context.h": "base",
    "include/tinker/transport.h": "http",
    "include/tinker/unique_function.h": "base",
    "include/tinker/version.h": "base",
    "include/tinker/tinker.h": "client",
    "include/tinker/types/*": "types",
    "include/tinker/adapters/*": "adapters",
    "include/tinker/testing/fake_clock.h": "base",
    "include/tinker/testing/fake_transport.h": "http",
    "include/tinker/testing/virtual_runtime.h": "async",
    "include/tinker/testing/*": "testing",
}

# A public header shows std and tinker types only; these exist to join us with something else.
FOREIGN_IN_PUBLIC = {
    "include/tinker/adapters/*": ["Eigen/", "torch/", "ATen/", "c10/"],
    "include/tinker/testing/*": ["gmock/", "gtest/"],
}

# Headers that are slow to compile or must not leak, and the only files that may include them.
HEAVY_HEADERS = {
    "simdjson.h": ["src/wire/json_reader.cc", "src/formats/json_object.h", "src/formats/safetensors.cc", "src/tokenizer/hf_reader.cc", "src/tokenizer/kimi_reader.cc", "src/engine/adapter_config.cc", "src/engine/model_config.cc", "src/engine/model_files.cc"],
    "protozero/": ["src/wire/proto*.h", "src/wire/proto*.cc"],
    "CLI/": ["src/cli/*"],
    "boost/asio": ["src/async/asio_loop.cc", "src/http/socket.cc"],
    "boost/beast": ["src/http/h1_parser.cc"],
    "nghttp2/": ["src/http/h2_memory.h", "src/http/h2_session.cc"],
    "openssl/": ["src/http/tls_*.cc"],
    "zlib.h": ["src/http/content_coding.cc", "src/formats/gunzip.cc"],
    "zstd.h": ["src/http/content_coding.cc"],
}

STD_HEADERS = set("""
    algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex concepts
    condition_variable coroutine deque exception execution filesystem format forward_list fstream
    functional future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list
    locale map memory memory_resource mutex new numbers numeric optional ostream queue random ranges
    ratio regex scoped_allocator semaphore set shared_mutex source_location span sstream stack
    stdexcept stop_token streambuf string string_view strstream syncstream system_error thread tuple
    type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector version
    cassert cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp csignal cstdarg cstddef
    cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype
""".split())

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:(?P<open>[<"])(?P<path>[^>"]+)[>"]|(?P<macro>\w+))')


class Include(NamedTuple):
    file: str  # from the root
    line: int
    path: str
    form: str  # '"', '<', or '' where a macro stands for the path


def closure(graph: dict[str, list[str]], start: str) -> set[str]:
    """What can be reached from `start`, itself included."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += graph.get(node, [])
    return seen


def lookup(table: dict, file: str):
    """The value of the first pattern that `file` matches, or None."""
    return next((value for pattern, value in table.items() if fnmatchcase(file, pattern)), None)


def allowed_layers(file: str) -> set[str]:
    layers = closure(LAYERS, layer_of(file))
    extra = lookup(EXCEPTIONS, file)
    return layers | closure(LAYERS, extra) if extra else layers


def layer_of(file: str) -> str | None:
    if file.startswith("include/"):
        return lookup(PUBLIC_HEADERS, file)
    folder = file.split("/")[1]
    return folder if folder in LAYERS else None


def includes(root: Path, folder: str) -> Iterator[Include]:
    for source in sorted((root / folder).rglob("*")):
        if source.suffix not in (".h", ".cc", ".inc"):
            continue
        file = source.relative_to(root).as_posix()
        for number, text in enumerate(source.read_text().splitlines(), 1):
            if match := INCLUDE.match(text):
                yield Include(file, number, match["path"] or match["macro"], match["open"] or "")


def target_of(root: Path, path: str) -> str | None:
    """The project file that an include names, or None if it names something else."""
    for base in ("include", "src"):
        file = posixpath.normpath(f"{base}/{path}")  # "wire/../client/x.h" counts for client
        if file.startswith(f"{base}/") and (root / file).is_file():
            return file
    return None


def check_heavy(include: Include) -> Iterator[str]:
    for heavy, files in HEAVY_HEADERS.items():
        if include.path.startswith(heavy) and not any(fnmatchcase(include.file, f) for f in files):
            yield f"<{include.path}> is only for {', '.join(files)}"


def check_foreign(include: Include) -> Iterator[str]:
    """An include that names no file of the project."""
    if not include.form:
        yield f"include of the macro {include.path}: write the path, so that it can be checked"
    elif include.form == '"':
        yield f'"{include.path}" names no file below include/ or src/; write includes from there'
    elif include.file.startswith("include/") and include.path not in STD_HEADERS:
        allowed = lookup(FOREIGN_IN_PUBLIC, include.file) or []
        if not include.path.startswith(tuple(allowed)):
            yield f"<{include.path}> in a public header: only std and tinker headers may be there"


def check_upwards(include: Include, target: str) -> Iterator[str]:
    """An include of one project file by another."""
    layer, other = layer_of(include.file), layer_of(target)
    if include.file.startswith("include/") and not target.startswith("include/"):
        yield f'"{include.path}" is internal; a public header may not include it'
    elif layer and other and other not in allowed_layers(include.file):
        yield f'{layer} may not include "{include.path}": {other} is not below it'


def check_linked(include: Include, target: str, links: dict[str, list[str]]) -> Iterator[str]:
    """Sources use only what their CMake target links, directly or not."""
    layer, other = layer_of(include.file), layer_of(target)
    if include.file.startswith("src/") and layer in links and other and other not in closure(links, layer):
        yield f'"{include.path}" belongs to {other}, which tinker_{layer} does not link'


def check_includes(root: Path, links: dict[str, list[str]]) -> Iterator[str]:
    for include in [*includes(root, "include"), *includes(root, "src")]:
        target = target_of(root, include.path)
        findings = list(check_heavy(include))
        if target is None:
            findings = findings or list(check_foreign(include))
        else:
            findings += list(check_upwards(include, target)) or check_linked(include, target, links)
        for finding in findings:
            yield f"{include.file}:{include.line}: {finding}"


def check_examples(root: Path) -> Iterator[str]:
    """Examples are written as a user would write them; what they share lies beside them."""
    for include in includes(root, "examples"):
        target = target_of(root, include.path)
        is_beside = (root / "examples" / include.path).exists()
        if include.form == '"' and not is_beside and not (target or "").startswith("include/"):
            yield f'{include.file}:{include.line}: "{include.path}" is not a public header'


def check_mapping(root: Path) -> Iterator[str]:
    """Every folder and every public header has its place in the tables above."""
    for header in sorted((root / "include").rglob("*.h")):
        file = header.relative_to(root).as_posix()
        if layer_of(file) is None:
            yield f"{file}: no layer; add it to PUBLIC_HEADERS in tools/check_layers.py"
    for folder in sorted(p for p in (root / "src").glob("*") if p.is_dir()):
        if folder.name not in LAYERS:
            yield f"src/{folder.name}: no layer; add it to LAYERS in tools/check_layers.py"
        elif not (folder / "CMakeLists.txt").exists() and any(folder.glob("*.cc")):
            yield f"src/{folder.name}: no CMakeLists.txt"


def check_installed(root: Path) -> Iterator[str]:
    """Every public header is installed, and the umbrella has all but the ones that need another library."""
    installed = (root / "src/client/CMakeLists.txt").read_text()
    umbrella = (root / "include/tinker/tinker.h").read_text()
    for header in sorted((root / "include").rglob("*.h")):
        file = header.relative_to(root).as_posix()
        if file not in installed:
            yield f"{file}: not installed; list it in src/client/CMakeLists.txt"
        optional = lookup(FOREIGN_IN_PUBLIC, file) is not None or file == "include/tinker/tinker.h"
        optional = optional or file.startswith("include/tinker/detail/")  # others bring those along
        if not optional and f'"{file.removeprefix("include/")}"' not in umbrella:
            yield f"{file}: not in the umbrella tinker.h"


def cmake_links(root: Path) -> dict[str, list[str]]:
    """Which layers each folder's CMakeLists.txt names: tinker_NAME, tinker::NAME, set(layers NAME...)."""
    links = {}
    for cmake in sorted((root / "src").glob("*/CMakeLists.txt")):
        text = re.sub(r"#.*", "", cmake.read_text())
        names = set(re.findall(r"\btinker(?:_|::)(\w+)", text))
        for listed in re.findall(r"\bset\(layers\s+([^)]*)\)", text):
            names |= set(listed.split())
        links[cmake.parent.name] = sorted(names & set(LAYERS) - {cmake.parent.name})
    return links


def check_links(links: dict[str, list[str]]) -> Iterator[str]:
    for layer, names in links.items():
        allowed = closure(LAYERS, layer)
        for pattern, extra in EXCEPTIONS.items():
            if pattern.startswith(f"src/{layer}/"):
                allowed |= closure(LAYERS, extra)
        for name in names:
            if name not in allowed:
                yield f"src/{layer}/CMakeLists.txt: {layer} may not link tinker_{name}: it is not below"


def check(root: Path) -> list[str]:
    links = cmake_links(root)
    return [
        *check_mapping(root),
        *check_installed(root),
        *check_links(links),
        *check_includes(root, links),
        *check_examples(root),
    ]


# ---- self-test --------------------------------------------------------------------------------

CLEAN_TREE = {
    "include/tinker/result.h": "#include <variant>\n",
    "include/tinker/tinker.h": '#include "tinker/result.h"\n#include "tinker/types/datum.h"\n',
    "include/tinker/types/datum.h": '#include <vector>\n\n#include "tinker/result.h"\n',
    "include/tinker/adapters/eigen.h": '#include <Eigen/Core>\n\n#include "tinker/types/datum.h"\n',
    "include/tinker/testing/matchers.h": '#include <gmock/gmock.h>\n\n#include "tinker/result.h"\n',
    "src/base/CMakeLists.txt": "tinker_layer(base SOURCES strings.cc DEPENDS Threads::Threads)\n",
    "src/base/strings.h": "#include <string>\n",
    "src/base/strings.cc": '#include "base/strings.h"\n\n#include <unistd.h>\n',
    "src/types/CMakeLists.txt": "tinker_layer(types SOURCES datum.cc DEPENDS tinker_base)  # not tinker_wire\n",
    "src/types/datum.cc": '#include "tinker/types/datum.h"\n\n#include "base/strings.h"\n',
    "src/wire/CMakeLists.txt": "tinker_layer(wire SOURCES json_reader.cc DEPENDS tinker_types)\n",
    "src/wire/json.h": '#include "tinker/types/datum.h"\n',
    "src/wire/json_reader.cc": '#include <simdjson.h>\n\n#include "base/strings.h"\n#include "wire/json.h"\n',
    "src/wire/proto_writer.h": "#include <protozero/pbf_writer.hpp>\n",
    "src/http/http.h": "",
    "src/client/CMakeLists.txt": "set(layers types wire)\nadd_library(tinker_client ${objects})\n"
    "install(include/tinker/result.h include/tinker/tinker.h include/tinker/types/datum.h\n"
    "  include/tinker/adapters/eigen.h include/tinker/testing/matchers.h)\n",
    "src/client/client.h": '#include "tinker/tinker.h"\n#include "wire/json.h"\n',
    "src/server/routes.h": '#include "wire/json.h"\n',
    "src/tokenizer/hub.h": '#include "http/http.h"\n',
    "examples/01_hello.cc": '#include <iostream>\n\n#include "tinker/tinker.h"\n',
}

# What is wrong, the file that goes wrong with its new text, and a part of the line to expect.
VIOLATIONS = [
    ("include of a higher layer", "src/base/strings.cc", '#include "wire/json.h"\n', "wire is not below it"),
    ("public type from base", "src/base/strings.cc", '#include "tinker/types/datum.h"\n', "types is not below it"),
    ("the same in angle brackets", "src/base/strings.cc", "#  include <wire/json.h>\n", "wire is not below it"),
    ("public header of a higher layer", "include/tinker/result.h", '#include "tinker/types/datum.h"\n', "types is not below it"),
    ("client includes server", "src/client/client.h", '#include "server/routes.h"\n', "server is not below it"),
    ("server includes client", "src/server/routes.h", '#include "client/client.h"\n', "client is not below it"),
    ("http outside the hub file", "src/tokenizer/bpe.cc", '#include "http/http.h"\n', "http is not below it"),
    ("relative include", "src/wire/json.h", '#include "../client/client.h"\n', "write includes from there"),
    ("detour to a higher layer", "src/wire/json.h", '#include "wire/../client/client.h"\n', "client is not below it"),
    ("computed include", "src/wire/json.h", "#include JSON_HEADER\n", "of the macro"),
    ("heavy header elsewhere", "src/wire/json.h", "#include <simdjson.h>\n", "only for src/wire/json_reader.cc"),
    ("heavy header, other file", "src/wire/json.h", "#include <protozero/types.hpp>\n", "only for src/wire/proto"),
    ("heavy header in public", "include/tinker/types/datum.h", "#include <simdjson.h>\n", "only for"),
    ("foreign header in public", "include/tinker/types/datum.h", "#include <curl/curl.h>\n", "only std and tinker"),
    ("Eigen outside the adapters", "include/tinker/types/datum.h", "#include <Eigen/Core>\n", "only std and tinker"),
    ("internal header in public", "include/tinker/tinker.h", '#include "wire/json.h"\n', "is internal"),
    ("unmapped public header", "include/tinker/novel.h", "", "include/tinker/novel.h: no layer"),
    ("header that is not installed", "include/tinker/types/novel.h", "", "not installed"),
    ("header that the umbrella lacks", "include/tinker/types/novel.h", "", "not in the umbrella"),
    ("unmapped folder", "src/novel/novel.cc", "", "src/novel: no layer"),
    ("folder without a target", "src/http/http.cc", "", "no CMakeLists.txt"),
    ("link to a higher layer", "src/types/CMakeLists.txt", "tinker_layer(types DEPENDS tinker_wire)\n", "may not link tinker_wire"),
    ("link between the two sides", "src/client/CMakeLists.txt", "target_link_libraries(tinker_client tinker::server)\n", "may not link tinker_server"),
    ("objects of the other side", "src/client/CMakeLists.txt", "set(layers wire server)\n", "may not link tinker_server"),
    ("include without the link", "src/wire/CMakeLists.txt", "tinker_layer(wire DEPENDS Threads::Threads)\n", "tinker_wire does not link"),
    ("internal header in an example", "examples/01_hello.cc", '#include "wire/json.h"\n', "not a public header"),
]


def findings_of(tree: dict[str, str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        for file, text in tree.items():
            path = Path(folder, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check(Path(folder))


def self_test() -> int:
    failures = [f"clean tree: {finding}" for finding in findings_of(CLEAN_TREE)]
    for name, file, text, expected in VIOLATIONS:
        findings = findings_of({**CLEAN_TREE, file: text})
        if not any(f.startswith(file.rpartition("/")[0]) and expected in f for f in findings):
            failures.append(f"{name}: expected '{expected}', found {findings}")
    print("\n".join(failures) or f"check_layers: catches all {len(VIOLATIONS)} kinds of violation")
    return 1 if failures else 0


def main(arguments: list[str]) -> int:
    if arguments == ["--self-test"]:
        return self_test()
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    findings = check(root)
    print("\n".join(findings) or "check_layers: no include and no link points upwards")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
