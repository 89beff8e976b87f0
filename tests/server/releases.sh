#!/usr/bin/env bash
# TINKER VENV [RELEASE...]: the scripts of this folder with a release of the official SDK of each minor version from 0.26 on (0.24, 0.25 and 0.36 are tests of
# ctest), and the training script with one that is newer than what we follow. They are installed into the environment VENV, one after the other.
set -euo pipefail
tinker=$1 venv=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
releases=("$@")
(( $# )) || releases=(0.26.2 0.27.2 0.28.1 0.29.1 0.30.4 0.31.0 0.32.0 0.33.1 0.34.0 0.35.0 0.38.0)
all_scripts=(every_method training checkpoints)

[[ -x $venv/bin/python ]] || /usr/bin/python3 -m venv "$venv"
failed=0
for release in "${releases[@]}"; do
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "tinker==$release"
  line="tinker $release:" scripts=("${all_scripts[@]}")
  # 0.38 waits for itself where a REST client is made while another thread begins a session, as every_method does.
  [[ $release != 0.38.* ]] || scripts=(training)
  for script in "${scripts[@]}"; do
    log=$venv/$release-$script.log
    if "$venv/bin/python" -B "$here/$script.py" --tinker "$tinker" >"$log" 2>&1; then
      line+=" $script ok"
    else
      line+=" $script FAILED ($log)"
      failed=1
    fi
  done
  echo "$line"
done
exit "$failed"
