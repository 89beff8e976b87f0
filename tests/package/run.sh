#!/usr/bin/env bash
# run.sh BUILD_DIR: installs that build, moves what was installed, and builds an outside program
# against it by find_package and by pkg-config.
set -euo pipefail

build=$(realpath -- "$1")
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
expected="tinker $version: run-1 step-10 refused"

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
prefix=$temporary/moved

fail() { printf 'package: %s\n' "$*" >&2; exit 1; }

install_and_move() {
  cmake --install "$build" --prefix "$temporary/first" >/dev/null
  mv "$temporary/first" "$prefix"
  pc_dir=$(dirname -- "$(find "$prefix" -name tinker.pc)")
  if grep --recursive --files-with-matches --binary-files=without-match \
    --regexp="$temporary/first" --regexp="$build" --regexp="$(dirname -- "$(dirname -- "$here")")" "$prefix"; then
    fail "the files above know where they were built or installed"
  fi
}

build_by_find_package() {
  cmake -G Ninja -S "$here" -B "$temporary/by_find_package" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_BUILD_TYPE=Release >/dev/null
  cmake --build "$temporary/by_find_package" >/dev/null
  expect "find_package" "$temporary/by_find_package/consumer"
}

build_by_pkg_config() {
  local flags
  read -ra flags <<<"$(PKG_CONFIG_PATH=$pc_dir pkg-config --cflags --libs tinker)"
  "${CXX:-g++}" -std=c++20 -o "$temporary/by_pkg_config" "$here/consumer.cc" "${flags[@]}"
  LD_LIBRARY_PATH=$(dirname -- "$pc_dir") expect "pkg-config" "$temporary/by_pkg_config"
}

# expect LABEL PROGRAM
expect() {
  local output
  output=$("$2") || fail "$1: the program failed"
  [[ $output == "$expected" ]] || fail "$1: expected '$expected', got '$output'"
  printf 'package: %s: %s\n' "$1" "$output"
}

install_and_move
build_by_find_package
build_by_pkg_config
