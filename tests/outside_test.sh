#!/usr/bin/env bash
# Installs Paceline into a fresh folder and builds a project of its own against it.
# usage: outside_test.sh BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$1" --prefix "$work/prefix" >/dev/null
cp -r "$2/tests/outside" "$work/project"  # away from the tree: nothing may be found by accident
cp "$2/examples/data_parallel.cc" "$2/examples/own_command_line.cc" "$work/project"
cmake -G Ninja -S "$work/project" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/build"
cd "$work"
"$work/build/outside" | tee "$work/output"
grep -qx 'trained 5 steps with Paceline .*' "$work/output"
"$work/prefix/bin/paceline" --version
"$work/build/own_command_line" models | grep -q "^my_mlp .*two layers"
GOMP_SPINCOUNT=1000 "$work/prefix/bin/paceline" launch -n 2 -- "$work/build/data_parallel" | tee "$work/output"
grep -q '2 ranks: accuracy' "$work/output"
