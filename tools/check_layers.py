#!/usr/bin/env python3
"""Proves that no include and no CMake link points upwards, and that the installed libraries are whole.

    tools/check_layers.py [ROOT]       prints a line per violation; exit status 1 if there is any
    tools/check_layers.py --self-test  shows that each kind of violation is caught
"""

import posixpath
import re
import sys
import tempfile
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Iterator, NamedTuple

# What each layer stands on. What those stand on may be used as well; nothing else may.
LAYERS = {
    "base": [],
    "types": ["base"],
    "async": ["base"],
    "http": ["async"],
    "transport": ["http"],
    "wire": ["types"],
    "formats": ["base"],
    "loss": ["types"],
    "api": ["http"],
    "telemetry": ["api", "wire"],
    "session": ["telemetry"],
    "tokenizer": ["formats"],
    "jinja": ["tokenizer"],
    "render": ["jinja", "wire"],
    "client": ["session", "transport", "loss", "tokenizer", "render"],
    "engine": ["async", "formats", "loss"],
    "server": ["engine", "wire", "http", "tokenizer"],
    "conform": ["client"],
    "cli": ["conform", "client", "render", "server"],
}

# Files that may use one layer more than the rest of their folder.
EXCEPTIONS = {
    "src/tokenizer/hub*": "transport",
    "src/tokenizer/CMakeLists.txt": "transport",
    "include/tinker/hub.h": "transport",
}

# A public header shows std and tinker types only; these exist to join us with something else.
FOREIGN_IN_PUBLIC = {
    "include/tinker/adapters/*": ["Eigen/", "torch/", "ATen/", "c10/"],
    "include/tinker/testing/*": ["gmock/", "gtest/"],
}

# Headers that are slow to compile or must not leak, and the only files that may include them.
HEAVY_HEADERS = {
    "simdjson.h": ["src/wire/json_reader.cc", "src/formats/json_object.h", "src/formats/safetensors.cc", "src/tokenizer/hf_reader.cc", "src/tokenizer/hub_listing.cc", "src/tokenizer/kimi_reader.cc", "src/engine/adapter_config.cc", "src/engine/model_config.cc", "src/engine/model_files.cc"],
    "protozero/": ["src/wire/proto*.h", "src/wire/proto*.cc"],
    "CLI/": ["src/cli/*"],
    "boost/asio": ["src/async/asio_loop.cc", "src/http/socket.cc"],
    "boost/beast": ["src/transport/h1_parser.cc"],
    "nghttp2/": ["src/http/h2_common.h"],
    "openssl/": ["src/http/tls_*.cc", "src/server/crypto.cc"],
    "sqlite3.h": ["src/server/database.cc"],
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

LIBRARIES_FILE = "cmake/TinkerLibraries.cmake"

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


class Tree(NamedTuple):
    """What the CMake files say."""

    root: Path
    owners: dict[str, str]  # public header -> the layer that lists it
    links: dict[str, list[str]]  # layer -> the layers that it links
    libraries: dict[str, "Library"]

    def layer_of(self, file: str) -> str | None:
        if file.startswith("include/"):
            return self.owners.get(file)
        folder = file.split("/")[1]
        return folder if folder in LAYERS else None

    def allowed_layers(self, file: str) -> set[str]:
        layers = closure(LAYERS, self.layer_of(file))
        extra = lookup(EXCEPTIONS, file)
        return layers | closure(LAYERS, extra) if extra else layers


class Library(NamedTuple):
    layers: list[str]
    uses: list[str]


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


def check_upwards(tree: Tree, include: Include, target: str) -> Iterator[str]:
    """An include of one project file by another."""
    layer, other = tree.layer_of(include.file), tree.layer_of(target)
    if include.file.startswith("include/") and not target.startswith("include/"):
        yield f'"{include.path}" is internal; a public header may not include it'
    elif layer and other and other not in tree.allowed_layers(include.file):
        yield f'{layer} may not include "{include.path}": {other} is not below it'


def check_linked(tree: Tree, include: Include, target: str) -> Iterator[str]:
    """Sources use only what their CMake target links, directly or not."""
    layer, other = tree.layer_of(include.file), tree.layer_of(target)
    if include.file.startswith("src/") and layer in tree.links and other and other not in closure(tree.links, layer):
        yield f'"{include.path}" belongs to {other}, which tinker_{layer} does not link'


def check_includes(tree: Tree) -> Iterator[str]:
    for include in [*includes(tree.root, "include"), *includes(tree.root, "src")]:
        target = target_of(tree.root, include.path)
        findings = list(check_heavy(include))
        if target is None:
            findings = findings or list(check_foreign(include))
        else:
            findings += list(check_upwards(tree, include, target)) or check_linked(tree, include, target)
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
    """Every folder has its place in the table of layers."""
    for folder in sorted(p for p in (root / "src").glob("*") if p.is_dir()):
        if folder.name not in LAYERS:
            yield f"src/{folder.name}: no layer; add it to LAYERS in tools/check_layers.py"
        elif not (folder / "CMakeLists.txt").exists() and any(folder.glob("*.cc")):
            yield f"src/{folder.name}: no CMakeLists.txt"


def check_headers(tree: Tree) -> Iterator[str]:
    """A layer lists every public header; the umbrella has those of the SDK, but for the ones that need another library."""
    sdk = closure(LAYERS, "client")
    umbrella = (tree.root / "include/tinker/tinker.h").read_text()
    for header in sorted((tree.root / "include").rglob("*.h")):
        file = header.relative_to(tree.root).as_posix()
        if file not in tree.owners:
            yield f"{file}: not installed; name it under HEADERS in the CMakeLists.txt of its layer"
        optional = lookup(FOREIGN_IN_PUBLIC, file) is not None or file == "include/tinker/tinker.h"
        optional = optional or file.startswith("include/tinker/detail/")  # others bring those along
        if not optional and tree.owners.get(file, "client") in sdk and f'"{file.removeprefix("include/")}"' not in umbrella:
            yield f"{file}: not in the umbrella tinker.h"


def check_libraries(tree: Tree) -> Iterator[str]:
    """Each layer is in one installed library, which has what the layer links or uses a library that has it."""
    uses = {name: library.uses for name, library in tree.libraries.items()}
    for layer in sorted(tree.links.keys() - {"conform", "cli"}):
        holders = [name for name, library in tree.libraries.items() if layer in library.layers]
        if len(holders) != 1:
            yield f"{LIBRARIES_FILE}: {layer} is in {len(holders)} libraries instead of one"
        for holder in holders:
            reached = {l for name in closure(uses, holder) if name in uses for l in tree.libraries[name].layers}
            for missing in sorted(closure(tree.links, layer) - reached):
                yield f"{LIBRARIES_FILE}: library {holder} lacks {missing}, which {layer} links"
    for name, library in tree.libraries.items():
        below = set().union(*(closure(LAYERS, layer) for layer in library.layers))
        for used in library.uses:
            if used not in tree.libraries or not below & set(tree.libraries[used].layers):
                yield f"{LIBRARIES_FILE}: library {name} may not use {used}: nothing of it is below"


def read_cmake(path: Path) -> str:
    return re.sub(r"#.*", "", path.read_text()) if path.exists() else ""


def arguments_of(call: str, keyword: str) -> list[str]:
    """The words after `keyword`, up to the next keyword or the end of the call."""
    words = re.findall(r"[^\s()]+|\)", call)
    if keyword not in words:
        return []
    return list(takewhile(lambda word: not word.isupper() and word != ")", words[words.index(keyword) + 1 :]))


def read_tree(root: Path) -> Tree:
    owners, links = {}, {}
    for cmake in sorted((root / "src").glob("*/CMakeLists.txt")):
        layer, text = cmake.parent.name, read_cmake(cmake)
        names = set(re.findall(r"\btinker(?:_|::)(\w+)", text))
        links[layer] = sorted(names & set(LAYERS) - {layer})
        owners |= {f"include/tinker/{header}": layer for header in arguments_of(text, "HEADERS")}
    calls = re.findall(r"^tinker_library\((\w+)([^)]*)", read_cmake(root / LIBRARIES_FILE), re.MULTILINE)
    libraries = {name: Library(arguments_of(call, "LAYERS"), arguments_of(call, "USES")) for name, call in calls}
    return Tree(root, owners, links, libraries)


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
    tree = read_tree(root)
    return [
        *check_mapping(root),
        *check_headers(tree),
        *check_links(tree.links),
        *check_libraries(tree),
        *check_includes(tree),
        *check_examples(root),
    ]


# ---- self-test --------------------------------------------------------------------------------

CLEAN_TREE = {
    "include/tinker/result.h": "#include <variant>\n",
    "include/tinker/engine.h": '#include "tinker/types/datum.h"\n',
    "include/tinker/tinker.h": '#include "tinker/result.h"\n#include "tinker/types/datum.h"\n',
    "include/tinker/types/datum.h": '#include <vector>\n\n#include "tinker/result.h"\n',
    "include/tinker/adapters/eigen.h": '#include <Eigen/Core>\n\n#include "tinker/types/datum.h"\n',
    "include/tinker/testing/matchers.h": '#include <gmock/gmock.h>\n\n#include "tinker/result.h"\n',
    "cmake/TinkerLibraries.cmake": "tinker_library(core LAYERS base types)\n"
    "tinker_library(net\n  LAYERS wire USES core)  # not http\n"
    "tinker_library(client FILE tinker LAYERS client USES net)\ntinker_library(engine LAYERS engine USES core)\n",
    "src/base/CMakeLists.txt": "tinker_layer(base HEADERS result.h testing/matchers.h SOURCES strings.cc DEPENDS Threads::Threads)\n",
    "src/base/strings.h": "#include <string>\n",
    "src/base/strings.cc": '#include "base/strings.h"\n\n#include <unistd.h>\n',
    "src/types/CMakeLists.txt": "tinker_layer(types\n  HEADERS\n    adapters/eigen.h\n    types/datum.h\n  SOURCES datum.cc\n"
    "  DEPENDS tinker_base)  # not tinker_wire\n",
    "src/types/datum.cc": '#include "tinker/types/datum.h"\n\n#include "base/strings.h"\n',
    "src/wire/CMakeLists.txt": "tinker_layer(wire SOURCES json_reader.cc DEPENDS tinker_types)\n",
    "src/wire/json.h": '#include "tinker/types/datum.h"\n',
    "src/wire/json_reader.cc": '#include <simdjson.h>\n\n#include "base/strings.h"\n#include "wire/json.h"\n',
    "src/wire/proto_writer.h": "#include <protozero/pbf_writer.hpp>\n",
    "src/http/http.h": "",
    "src/client/CMakeLists.txt": "tinker_layer(client HEADERS tinker.h SOURCES client.cc DEPENDS tinker_wire)\n",
    "src/engine/CMakeLists.txt": "tinker_layer(engine HEADERS engine.h SOURCES engine.cc DEPENDS tinker_types)\n",
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
    ("engine in the umbrella", "include/tinker/tinker.h", '#include "tinker/engine.h"\n', "engine is not below it"),
    ("header that is not installed", "include/tinker/types/novel.h", "", "not installed"),
    ("header that the umbrella lacks", "include/tinker/types/novel.h", "", "not in the umbrella"),
    ("unmapped folder", "src/novel/novel.cc", "", "src/novel: no layer"),
    ("folder without a target", "src/http/http.cc", "", "no CMakeLists.txt"),
    ("link to a higher layer", "src/types/CMakeLists.txt", "tinker_layer(types DEPENDS tinker_wire)\n", "may not link tinker_wire"),
    ("link between the two sides", "src/client/CMakeLists.txt", "target_link_libraries(tinker_client tinker::server)\n", "may not link tinker_server"),
    ("layer in no library", "src/session/CMakeLists.txt", "tinker_layer(session SOURCES s.cc)\n", "session is in 0 libraries"),
    ("layer in two libraries", LIBRARIES_FILE, "tinker_library(a LAYERS base types)\ntinker_library(b LAYERS base)\n", "base is in 2"),
    ("library that is not whole", LIBRARIES_FILE, "tinker_library(core LAYERS base)\ntinker_library(net LAYERS wire USES core)\n", "lacks types"),
    ("library that uses one above", LIBRARIES_FILE, "tinker_library(net LAYERS wire)\ntinker_library(engine LAYERS engine USES net)\n", "may not use net"),
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
        place = LIBRARIES_FILE if "librar" in expected else file.rpartition("/")[0]
        if not any(f.startswith(place) and expected in f for f in findings):
            failures.append(f"{name}: expected '{expected}', found {findings}")
    print("\n".join(failures) or f"check_layers: catches all {len(VIOLATIONS)} kinds of violation")
    return 1 if failures else 0


def main(arguments: list[str]) -> int:
    if arguments == ["--self-test"]:
        return self_test()
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    findings = check(root)
    print("\n".join(findings) or "check_layers: no include and no link points upwards, libraries are whole")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
