"""Training that outlives its workers: `horovodrun --min-np N … python3 train_elastic.py [STEPS [SECONDS]]`.

The same as train.py, with a state that is committed after each step of at least SECONDS. When workers are added or
lost, the ranks that are left continue from the last commit with those that have come.
"""

import socket
import sys
import time

import horovod.torch as hvd
import torch
from train import batch, digest


def main() -> int:
    """Train; the exit status."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.1
    hvd.init()
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, losses=[])

    def train(state: hvd.elastic.TorchState) -> None:
        where = f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()}"
        print(f"{where}: continues from step {state.step}", flush=True)
        data = torch.Generator().manual_seed(1000 * state.step + hvd.rank())
        while state.step < steps:
            points, values = batch(data)
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(points), values)
            loss.backward()
            optimizer.step()
            state.losses = [*state.losses[:1], hvd.allreduce(loss).item()]  # the first and the last
            state.step += 1
            if hvd.rank() == 0 and state.step % 10 == 0:
                print(f"step {state.step} with {hvd.size()} ranks, loss {state.losses[-1]:.4f}", flush=True)
            time.sleep(seconds)
            state.commit()

    hvd.elastic.run(train)(state)
    first, last = state.losses
    mine = digest(model)
    print(f"rank {hvd.rank()} of {hvd.size()}: loss {first:.4f} to {last:.4f}, parameters {mine}", flush=True)
    agree = len(set(hvd.allgather_object(mine))) == 1
    if hvd.rank() == 0:
        fell = "fell" if last < first / 2 else "did NOT fall"
        print(f"{hvd.size()} ranks {'agree' if agree else 'DIFFER'}, losses {fell}", flush=True)
    return 0 if agree and last < first / 2 else 1


if __name__ == "__main__":
    sys.exit(main())
