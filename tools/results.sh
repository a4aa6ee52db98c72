#!/usr/bin/env bash
# Repeats every recorded experiment: runs go to runs/results (the same call goes on where it was stopped), what is recorded
# of them to results/, and results/README.md is written anew. It takes many hours.
#
#     tools/results.sh            everything
#     tools/results.sh quick      a sample of each in about ten minutes, recorded in build/results
#
# JOBS says how many runs at a time (2). CIFAR-10 and MNIST are downloaded; mini-ImageNet has to be imported first.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-2}
runs=${RUNS:-runs/results} target=results
seeds=10 few=3
methods=all
# Training anew on all images after every task, or a step for each of 49 past tasks, takes many hours: joint and, on
# permuted-mnist, vpr-paper go apart.
others=vpr,slda,nearest-mean,nearest-mean-random,nearest-mean-encoder,icarl,replay,l2,ewc,online-ewc,si,mas,lwf,sgd
tuned=sgd@tuned,l2@tuned,ewc@tuned,online-ewc@tuned,si@tuned,mas@tuned
full=(protoreplay bench permuted-mnist --seeds 1 --set tasks=10 --set shots=all --set epochs=5)
short=() fewer=() photos=(cifar unknown mini onnx kill) ablated=() step=() whole=()
if [ "${1:-}" = quick ]; then
    runs=${RUNS:-runs/results-quick} target=build/results
    seeds=1 few=1
    methods=vpr,nearest-mean,slda,replay,sgd
    others=$methods tuned=sgd@tuned
    # The first task of the last two protocols has thousands of images: its training alone would take longer.
    short=(--set tasks=4) fewer=(--set tasks=4 --set first_shots=100) photos=()
    full=(protoreplay bench permuted-mnist --seeds 1 --set tasks=3 --set shots=100 --set first_shots=100 --set epochs=5)
    ablated=(--methods vpr --set tasks=2) step=(--classes 10 --tasks 5 --seconds 1 --only vpr) whole=(vpr nearest-mean)
fi

# ran NAME COMMAND...: the runs of a command in a folder that `recorded NAME ...` adds to.
before=()
ran() {
    local name=$1
    shift
    echo "== $name: $*"
    "$@" --jobs "$jobs" --out "$runs/$name"
    before+=("$* --jobs $jobs --out $runs/$name")
}

# recorded NAME COMMAND...: the runs of a command, its table and counts; the page with figures lies beside the runs.
recorded() {
    local name=$1
    ran "$@"
    python tools/record.py "$runs/$name" "$target/$name" "${before[@]}"
    before=()
    protoreplay report "$runs/$name" -o "$runs/$name.html"
}

# timed NAME COMMAND...: what a benchmark prints, with the load before it; not again if it was done.
timed() {
    local name=$1
    shift
    [ -e "$runs/$name.done" ] && return
    echo "== $name: $*"
    mkdir -p "$target/speed" "$runs"
    { echo "\$ $*    # load $(cut -d' ' -f1 /proc/loadavg)"; "$@"; } >"$runs/$name.txt"
    mv "$runs/$name.txt" "$target/speed/$name.txt"
    touch "$runs/$name.done"
}

protoreplay data get cifar10
protoreplay data get mnist
protoreplay data get fashion-mnist
recorded split-cifar10 protoreplay bench split-cifar10 --methods "$methods" --seeds "$seeds" "${short[@]}"
recorded split-cifar10-tuned protoreplay bench split-cifar10 --methods "$tuned" --seeds "$seeds" "${short[@]}"
recorded split-cifar10-100-labels \
    protoreplay bench split-cifar10 --methods vpr --seeds "$((2 * seeds))" --set first_classes=10
recorded split-cifar10-random-order \
    protoreplay bench split-cifar10 --methods vpr --seeds "$seeds" --set class_order=random "${short[@]}"
recorded ablations protoreplay ablate split-cifar10 --seeds "$seeds" "${ablated[@]}"
cp "$runs"/ablations/ablations*.csv "$target/ablations/"
if [ "$target" = results ]; then
    kept=(protoreplay bench split-cifar10 --methods vpr-paper --seeds 10 --keep-prototypes)
    ran split-cifar10-kept "${kept[@]}"
    python tools/paper_figures.py "$runs/split-cifar10-kept" "${before[@]}"
    before=()
fi
recorded ladder-split-cifar10 protoreplay ladder split-cifar10 --seeds "$seeds" "${short[@]}"
cp "$runs"/ladder-split-cifar10/ladder.csv "$target/ladder-split-cifar10/"
frozen=vpr,slda,simplecil,ranpac,fecam,klda,acil,logistic,replay,icarl,ewc,sgd
recorded encoder-split-cifar10 \
    protoreplay bench split-cifar10 --encoder lite2 --methods "$frozen" --seeds "$seeds" "${short[@]}"
recorded encoder-split-fashion-mnist \
    protoreplay bench split-fashion-mnist --encoder lite2 --methods "$frozen" --seeds "$(((seeds + 1) / 2))" "${short[@]}"
closed=slda,simplecil,ranpac,fecam,klda,acil,logistic
recorded dictionary-split-cifar10 protoreplay bench split-cifar10 --encoder dictionary \
    --methods "vpr,nearest-mean,$closed" --seeds "$seeds" "${short[@]}"
recorded pixels-split-cifar10 protoreplay bench split-cifar10 --encoder pixels --methods "randumb,$closed" \
    --seeds "$(((seeds + 1) / 2))" "${short[@]}"
ran permuted-mnist-full "${full[@]}" --methods l2 --vary strength=0,0.02
recorded permuted-mnist-full "${full[@]}" --methods ewc,online-ewc,si,mas
many=(protoreplay bench permuted-mnist --seeds "$few" --set test_images=100 "${fewer[@]}")
large=(protoreplay bench split-mini-imagenet --seeds "$few" "${fewer[@]}")
if [ "$methods" = all ]; then
    ran permuted-mnist "${many[@]}" --methods joint --set max_steps=940
    ran permuted-mnist "${many[@]}" --methods vpr-paper --set max_steps=4690 --set fused=true --set expectation=closed-form
fi
recorded permuted-mnist "${many[@]}" --methods "$others" --set max_steps=4690
recorded permuted-mnist-not-aligned "${many[@]}" --methods vpr --set domains=own
recorded permuted-mnist-tuned protoreplay bench permuted-mnist --seeds 1 --set test_images=100 "${fewer[@]}" \
    --methods "$tuned" --set max_steps=4690
if protoreplay data path mini-imagenet; then
    if [ "$methods" = all ]; then
        ran split-mini-imagenet "${large[@]}" --methods joint --set max_steps=450
        ran split-mini-imagenet "${large[@]}" --methods vpr-paper
    fi
    recorded split-mini-imagenet "${large[@]}" --methods "$others"
    [ "$target" != results ] || recorded fscil-mini-imagenet protoreplay bench fscil-mini-imagenet --encoder dictionary \
        --methods "vpr,nearest-mean,slda,simplecil,ranpac,fecam,klda,acil" --seeds "$few"
    recorded ladder-split-mini-imagenet protoreplay ladder split-mini-imagenet --seeds "$few" "${fewer[@]}"
    cp "$runs"/ladder-split-mini-imagenet/ladder.csv "$target/ladder-split-mini-imagenet/"
else
    echo "split-mini-imagenet is left out: protoreplay data import mini-imagenet PATH, then again"
    photos=("${photos[@]/mini/}")
fi
for name in ${photos[@]:+"${photos[@]}"}; do
    if [ ! -e "$runs/photos-$name.done" ]; then
        python experiments/photo_results.py "$name"
        touch "$runs/photos-$name.done"
    fi
done
timed step python benchmarks/step.py "${step[@]}"
timed regularisers python benchmarks/regularisers.py
timed run python benchmarks/run.py "${whole[@]}"
timed short_runs python benchmarks/short_runs.py
python experiments/interval_coverage.py "$target/coverage/README.md"
if [ "$target" = results ]; then
    python tools/results_readme.py
    python tools/method_pages.py
    python tools/paper_figures.py
fi
echo "recorded in $target"
