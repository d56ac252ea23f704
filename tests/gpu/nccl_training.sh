#!/usr/bin/env bash
# Training over several ranks on CUDA devices, which the ranks may share: prints a line PASS or FAIL for each promise, and ends with 1
# when one was not kept. Takes about a minute on one GPU. With OUT set, outputs of a run with failures go there as outputs.tar.
#
#   tests/gpu/nccl_training.sh [BUILD_FOLDER]     (default: build/cuda)
set -u
build=${1:-build/cuda}
paceline=$build/bin/paceline checks=$build/bin/nccl_checks
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
at_most() { timeout -k 5 "$@"; }           # SECONDS COMMAND...: a rank that hangs on its device hears no first signal
export PACELINE_TIMEOUT=20
export NVIDIA_TF32_OVERRIDE=0             # sums of f32 products: then a batch in two parts is the batch in one, but for rounding
export CUBLAS_WORKSPACE_CONFIG=:4096:8    # what cuBLAS wants for the same bits in every run
failures=0

say() {  # RESULT NAME DETAIL
  printf '%-6s%-50s%s\n' "$1" "$2" "${3:-}"
  [ "$1" = PASS ] || failures=$((failures + 1))
}
recipe() {  # NAME MODEL IMAGE_SIZE
  cat > "$work/$1.toml" <<END
[model]
name = "$2"
dropout = 0

[data]
name = "synthetic"
train_samples = 640
test_samples = 128
classes = 10
channels = 3
image_size = $3

[batch]
global = 64

[optimizer]
name = "sgd"
rate = 0.01
momentum = 0.9

[train]
epochs = 1
device = "cuda"
graph = "never"
END
}
train() {  # FOLDER RECIPE ARGUMENTS...: its weights are then in $work/FOLDER.safetensors, the optimizer's state in $work/FOLDER.optimizer
  local folder=$1 recipe=$2
  shift 2
  at_most 120 "$paceline" train "$work/$recipe.toml" --out "$work/$folder" --quiet "$@" > "$work/$folder.out" 2>&1
  local code=$?
  if [ $code != 0 ]; then
    say FAIL "$folder: training" "code $code"
    tail -15 "$work/$folder.out"
    return 1
  fi
  local newest
  newest=$(ls -d "$work/$folder"/checkpoints/*/ | tail -1)
  cp "${newest}weights.safetensors" "$work/$folder.safetensors"
  cp "${newest}optimizer.safetensors" "$work/$folder.optimizer"
}
alike() {  # NAME FOLDER FOLDER LIMIT
  local found
  if found=$("$checks" --compare "$work/$2.safetensors" "$work/$3.safetensors" "$4" 2>&1); then say PASS "$1" "$found"; else say FAIL "$1" "$found"; fi
}
same_bits() {  # NAME FOLDER FOLDER
  if ! cmp -s "$work/$2.safetensors" "$work/$3.safetensors"; then
    say FAIL "$1" "weights differ"
  elif ! cmp -s "$work/$2.optimizer" "$work/$3.optimizer"; then
    say FAIL "$1" "weights are the same, the optimizer's state (momentum, average) is not"
  else
    say PASS "$1"
  fi
}
recorded() {  # NAME FOLDER: some of its steps were one CUDA graph
  local steps
  steps=$(sed -n 's/.*"graph_steps": *\([0-9]*\).*/\1/p' "$work/$2/summary.json")
  if [ "${steps:-0}" -gt 0 ]; then say PASS "$1" "$steps steps"; else say FAIL "$1" "no step was"; fi
}
refused() {  # NAME TEXT ARGUMENTS...
  local name=$1 text=$2 code
  shift 2
  at_most 60 "$paceline" train "$work/small.toml" --out "$work/refused-$RANDOM" --quiet --ranks 2 "$@" > "$work/refused.out" 2>&1
  code=$?
  if [ $code = 3 ] && grep -q "$text" "$work/refused.out"; then say PASS "$name"; else say FAIL "$name" "code $code: $(tail -1 "$work/refused.out")"; fi
}

recipe plain alexnet 64    # without batch normalisation: what ranks see of a batch does not matter
recipe small small_cnn 32  # with it
deterministic=(--set train.deterministic=true)

# Convolutions choose their algorithm by the batch, and products are rounded to TF32: what differs by rounding in the first step differs by
# 0.03 of a bias after ten. So ten steps are compared with one rank that computes in the ranks' parts, one step with the whole batch.
train one plain "${deterministic[@]}" --set batch.micro=32
train two plain --ranks 2 "${deterministic[@]}"
train two_again plain --ranks 2 "${deterministic[@]}"
train torus plain --ranks 2 "${deterministic[@]}" --set comm.algorithm=torus2d --set comm.bucket_bytes=1000003
train late plain --ranks 2 "${deterministic[@]}" --set comm.overlap=false
alike "two ranks train as one" two one 1e-5
train one_step plain "${deterministic[@]}" --set train.max_steps=1
train two_step plain --ranks 2 "${deterministic[@]}" --set train.max_steps=1
alike "the first step is that of the double batch" two_step one_step 1e-4
# Biases begin at 0, so that after one step they are the gradient: rounded three times, by each rank and in the sum.
for codec in fp16:2e-3 bf16:2e-2; do
  train "step_${codec%:*}" plain --ranks 2 "${deterministic[@]}" --set train.max_steps=1 --set "comm.codec=${codec%:*}"
  alike "gradients travel as ${codec%:*}" "step_${codec%:*}" two_step "${codec#*:}"
done
alike "over a torus, in other buckets" torus one 1e-5
alike "without overlap" late one 1e-5
same_bits "two runs have the same bits" two two_again

train small_two small --ranks 2 "${deterministic[@]}"
train small_again small --ranks 2 "${deterministic[@]}"
same_bits "with batch normalisation, too" small_two small_again
train small_sync small --ranks 2 "${deterministic[@]}" --set batch_norm.sync=true
train small_one small "${deterministic[@]}"
alike "synchronised batch normalisation trains as one" small_sync small_one 1e-3
train small_bf16 small --ranks 2 --set train.precision=bf16 && say PASS "bf16"
train small_f16 small --ranks 2 --set train.precision=f16 && say PASS "f16"

# Three steps, then one graph that is replayed: with sums over the ranks in it, a loss scale that overflows at first, clipping, an average.
all_of_it=("${deterministic[@]}" --set train.precision=f16 --set precision.loss_scale=1e11 --set optimizer.clip_norm=0.5 --set optimizer.average=0.9 --set train.epochs=4)
train small_pieces small --ranks 2 "${all_of_it[@]}"
train small_graph small --ranks 2 "${all_of_it[@]}" --set train.graph=always
same_bits "a step over ranks as one CUDA graph" small_graph small_pieces
recorded "it was recorded" small_graph
train small_torus small --ranks 2 "${all_of_it[@]}" --set train.graph=always --set comm.algorithm=torus2d --set comm.bucket_bytes=1000003
train small_late small --ranks 2 "${all_of_it[@]}" --set comm.algorithm=torus2d --set comm.bucket_bytes=1000003
same_bits "over a torus, too" small_torus small_late
train small_fp16 small --ranks 2 "${all_of_it[@]}" --set train.graph=always --set comm.codec=fp16
train small_fp16_pieces small --ranks 2 "${all_of_it[@]}" --set comm.codec=fp16
same_bits "with gradients that travel as fp16, too" small_fp16 small_fp16_pieces
# Steps that were skipped count for nobody: with the corrections of Adam and the bounds of AdaBound a graph has the bits of single launches.
for optimizer in adam adabound; do
  train "small_$optimizer" small --ranks 2 "${all_of_it[@]}" --set train.graph=always --set optimizer.name=$optimizer --set optimizer.momentum=default
  train "small_${optimizer}_pieces" small --ranks 2 "${all_of_it[@]}" --set optimizer.name=$optimizer --set optimizer.momentum=default
  same_bits "with $optimizer, too" "small_$optimizer" "small_${optimizer}_pieces"
done

# Half of a run, and the rest: as the whole.
train small_half small --ranks 2 "${deterministic[@]}" --set train.max_steps=5
train small_half small --ranks 2 "${deterministic[@]}" --resume
same_bits "a run that was resumed has the same bits" small_half small_two

# Replicas that are averaged after a step of plain SGD are where summed gradients lead, but for rounding: one step, as above.
one_plain_step=("${deterministic[@]}" --set optimizer.momentum=0 --set train.max_steps=1)
train averaged plain --ranks 2 "${one_plain_step[@]}" --set sync.policy=local_sgd --set sync.interval=1
train summed plain --ranks 2 "${one_plain_step[@]}"
alike "local SGD averages to the step of summed gradients" averaged summed 1e-5

# All ranks find out some steps late, and together.
at_most 60 "$paceline" train "$work/plain.toml" --out "$work/wild" --quiet --ranks 2 --set optimizer.rate=1e30 > "$work/wild.out" 2>&1
code=$?
if [ $code = 6 ] && grep -q 'is the first layer whose output is not finite' "$work/wild.out"; then
  say PASS "a run that diverges names the layer"
else
  say FAIL "a run that diverges names the layer" "code $code: $(tail -1 "$work/wild.out")"
fi

refused "codecs are refused" 'comm.codec.*on the CPU only' --set comm.codec=int8
refused "algorithms of the CPU are refused" 'ring adds on the CPU' --set comm.algorithm=ring

# A rank that is killed leaves nobody waiting on the device.
# Started as torchrun does it: no launcher that ends the others.
export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 10000)) TORCHELASTIC_RUN_ID=die$$
export PACELINE_SECRET=$RANDOM$RANDOM PACELINE_TIMEOUT=20 PACELINE_FLIGHT_DIR=$work
RANK=1 LOCAL_RANK=1 at_most 60 "$checks" --die > "$work/killed.out" 2>&1 &
RANK=0 LOCAL_RANK=0 at_most 60 "$checks" --die > "$work/die.out" 2>&1
code=$?
wait
if [ $code != 0 ] && [ $code != 124 ] && grep -q "rank 0 was told" "$work/die.out"; then
  say PASS "a rank that died is noticed" "$(grep -o 'rank 0 was told.*' "$work/die.out" | head -1)"
else
  say FAIL "a rank that died is noticed" "code $code: $(tail -1 "$work/die.out")"
fi

[ $failures = 0 ] || [ -z "${OUT:-}" ] || tar -C "$work" -cf "$OUT/outputs.tar" $(cd "$work" && ls *.out)
[ $failures = 0 ]
