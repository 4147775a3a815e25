#!/usr/bin/env bash
# Tries what is in dist/ as a user has it, without the repository: `make release`. Each Python that is named and found
# gets a new environment, with the locked versions. The image is built and tried where Docker runs.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(echo "$PWD"/dist/*.whl)
work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT
# Without hashes, which pip would demand of the wheel, too.
sed --quiet 's/^\([^ #]*==.*\) \\$/\1/p' requirements/runtime.txt >"$work/constraints.txt"
export XDG_CACHE_HOME="$work/cache"
tried=0

for python in "$@"; do
  if ! "$python" -c '' 2>/dev/null; then
    echo "skipped: $python is not here"
    continue
  fi
  rm -rf "$work/venv" "$work/cache" "$work/empty" && mkdir "$work/empty"
  "$python" -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check --constraint "$work/constraints.txt" "$wheel[worker]"
  "$work/venv/bin/pip" check --quiet --disable-pip-version-check
  size=$(du --summarize --human-readable "$work/venv" | cut -f 1)
  (cd "$work/empty" && ../venv/bin/resonance --version && ../venv/bin/resonance demo >"$work/demo.txt" 2>&1) ||
    { cat "$work/demo.txt"; echo "failed: $python"; exit 1; }
  grep --fixed-strings ✔ "$work/demo.txt"
  echo "passed: $("$python" --version), $size, $SECONDS s since the start"
  tried=$((tried + 1))
done

if docker info >/dev/null 2>&1; then
  docker build --quiet --file docker/Dockerfile --tag resonance .
  docker run --rm --network none resonance --version
  docker run --rm --network none --env RESONANCE_WORKER__WEB_HOST=127.0.0.1 resonance demo | grep --fixed-strings ✔
  echo "passed: the image"
else
  echo "skipped: the image, because Docker does not run here"
fi
ls -l --human-readable dist
((tried > 0)) || { echo "failed: none of these is here: $*"; exit 1; }
