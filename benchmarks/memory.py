"""Peak memory of 50 tasks of EWC on permuted MNIST, all of them tested at the end; at most 4 GiB."""

import resource

import torch

from protoreplay import UserError, evaluate, make_method, make_stream
from protoreplay.metrics.accuracy import final_accuracy

TARGET = 4.0


def main() -> None:
    torch.set_num_threads(1)
    try:
        stream = make_stream("permuted-mnist")
    except UserError as error:
        print(f"permuted-mnist: {error}")
        return
    # What is kept does not depend on the number of epochs.
    method = make_method("ewc", stream, epochs=1)
    for task in stream:
        method.learn(task)
    counts = evaluate(method, stream, len(stream))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    kept = sum(item.bytes for item in method.ledger()) / 2**20
    print(
        f"permuted-mnist, {len(stream)} tasks of ewc, 1 epoch: at most {peak:.2f} GiB in memory, target {TARGET}; "
        f"{kept:.0f} MiB kept between tasks; final accuracy {100 * final_accuracy(counts):.1f} %"
    )


if __name__ == "__main__":
    main()
