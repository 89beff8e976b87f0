#!/usr/bin/env bash
# run.sh BUILD_DIR: installs that build by components, moves what was installed, and builds outside programs against it by find_package and by
# pkg-config: against each component alone, against client and engine, against these and the server, and against what is not there.
set -euo pipefail

build=$(realpath -- "$1")
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

declare -rA expected=(
  [client]="tinker $version: run-1 step-10 refused"
  [engine]="tinker $version: no model"
  [both]="tinker $version: no model, a client"
  [everything]="tinker $version: no model, tokens of a server here: 1"
  [server]="tinker $version: a server came and went"
)

fail() { printf 'package: %s\n' "$*" >&2; exit 1; }

# ---- installing -------------------------------------------------------------------------------

# install PREFIX [COMPONENT...]: these components, or all, in a folder that the build never heard of.
install() {
  local prefix=$temporary/$1 component
  shift
  if (( $# )); then
    for component; do cmake --install "$build" --prefix "$temporary/first" --component "$component" >/dev/null; done
  else
    cmake --install "$build" --prefix "$temporary/first" >/dev/null
  fi
  mv "$temporary/first" "$prefix"
  if grep --recursive --files-with-matches --binary-files=without-match \
    --regexp="$temporary/first" --regexp="$build" --regexp="$(dirname -- "$(dirname -- "$here")")" "$prefix"; then
    fail "the files above know where they were built or installed"
  fi
}

libraries_in() { find "$temporary/$1" -name 'libtinker*.a' -o -name 'libtinker*.so'; }
library_folder() { dirname -- "$(libraries_in "$1" | head -n 1)"; }

# A program may link any libraries together, so none defines what another one does.
no_definition_twice() {
  local library twice
  twice=$(for library in $(libraries_in all); do
    # Strong definitions; templates and inline functions may be in many.
    nm --defined-only --extern-only $([[ $library == *.so ]] && echo --dynamic) "$library" 2>/dev/null |
      awk '$2 ~ /^[TDBR]$/ && $3 ~ /6tinker/ { print $3 }' | sort --unique
  done | sort | uniq --repeated)
  [[ -z $twice ]] || fail "defined in more than one library: $(head -n 5 <<<"$twice" | c++filt)"
  (( $(libraries_in all | wc -l) == 5 )) || fail "expected 5 libraries, found: $(libraries_in all)"
}

# ---- outside programs -------------------------------------------------------------------------

# configure PREFIX PROGRAM COMPONENTS LIBRARIES: into $temporary/by_cmake.
configure() {
  rm -rf "$temporary/by_cmake"
  cmake -G Ninja -S "$here" -B "$temporary/by_cmake" -DCMAKE_PREFIX_PATH="$temporary/$1" -DCMAKE_BUILD_TYPE=Release \
    -DPROGRAM="$2" -DCOMPONENTS="$3" -DLIBRARIES="$4"
}

by_find_package() {
  configure "$@" >/dev/null
  cmake --build "$temporary/by_cmake" >/dev/null
  expect "find_package(tinker${3:+ COMPONENTS $3})" "$2" "$temporary/by_cmake/$2"
}

# refused PREFIX COMPONENT: find_package says which component it cannot give.
refused() {
  local output
  ! output=$(configure "$1" client "$2" tinker::client 2>&1) || fail "find_package found a component '$2' in '$1'"
  [[ $output == *"no component '$2'"* ]] || fail "find_package does not name the component '$2': $output"
  printf 'package: COMPONENTS %s where there is %s: refused by name\n' "$2" "$1"
}

# by_pkg_config PREFIX PROGRAM MODULE... : with and without --static, which must both do.
by_pkg_config() {
  local folder flags static
  folder=$(library_folder "$1")
  for static in '' --static; do
    [[ -z $static || -f $folder/libtinker-core.a ]] || continue
    read -ra flags <<<"$(PKG_CONFIG_PATH=$folder/pkgconfig pkg-config $static --cflags --libs "${@:3}")"
    "${CXX:-g++}" -std=c++20 -o "$temporary/$2" "$here/$2.cc" "${flags[@]}"
    LD_LIBRARY_PATH=$folder expect "pkg-config${static:+ $static} ${*:3}" "$2" "$temporary/$2"
  done
}

# expect LABEL PROGRAM PATH
expect() {
  local output
  output=$("$3") || fail "$1: the program failed"
  [[ $output == "${expected[$2]}" ]] || fail "$1: expected '${expected[$2]}', got '$output'"
  has_only_its_own "$2" "$3" || fail "$1: the program has more of tinker in it, or less, than it links"
  printf 'package: %s: %s\n' "$1" "$output"
}

# has_only_its_own PROGRAM PATH: no engine in a program of the SDK, no HTTP and no TLS in one of the engine, SQLite with the server only.
has_only_its_own() {
  local parts
  parts=$({ nm --demangle "$2"; ldd "$2"; } |
    grep -oE 'tinker::(engine|http|transport)::|libtinker-(engine|net)\.so|libssl\.so|libsqlite3\.so|\bsqlite3_[a-z]' |
    sed -E 's/.*engine.*/engine/; s/.*sqlite.*/sqlite/; s/.*(http|transport|net|ssl).*/network/' | sort --unique | tr '\n' ' ')
  case $1 in
    client) [[ $parts == 'network ' ]] ;;
    engine) [[ $parts == 'engine ' ]] ;;
    both) [[ $parts == 'engine network ' ]] ;;
    everything | server) [[ $parts == 'engine network sqlite ' ]] ;;
  esac
}

install all
no_definition_twice
by_find_package all both '' 'tinker::client;tinker::engine'
by_find_package all both 'client;engine' 'tinker::client;tinker::engine'
by_find_package all everything '' 'tinker::client;tinker::engine;tinker::server'
by_find_package all everything 'client;engine;server' 'tinker::client;tinker::engine;tinker::server'
by_find_package all client '' tinker::client
by_pkg_config all both tinker tinker-engine
by_pkg_config all everything tinker tinker-engine tinker-server
refused all gpu

install client_alone core net client
by_find_package client_alone client client tinker::client
by_pkg_config client_alone client tinker
refused client_alone engine

install engine_alone core engine
by_find_package engine_alone engine engine tinker::engine
by_pkg_config engine_alone engine tinker-engine
refused engine_alone client

install server_alone core net engine server
by_find_package server_alone server server tinker::server
by_pkg_config server_alone server tinker-server
refused server_alone client
