"""Data-parallel training: `horovodrun -np N … python3 train.py [STEPS]`.

A small network learns a known function from generated data, each rank from data of its own. Each rank says what its
loss was and is, and a hash of its parameters. It fails if the loss did not fall or the ranks' parameters differ.
"""

import hashlib
import socket
import sys

import horovod.torch as hvd
import torch


def batch(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Points, and their values of the function to be learned."""
    points = torch.rand(64, 2, generator=generator) * 2 - 1
    return points, (points[:, :1] * points[:, 1:] + points[:, :1]).detach()


def digest(model: torch.nn.Module) -> str:
    """The parameters' hash: the same on all ranks, to the last bit."""
    total = hashlib.sha256()
    for parameter in model.parameters():
        total.update(parameter.detach().numpy().tobytes())
    return total.hexdigest()[:16]


def main() -> int:
    """Train; the exit status."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(hvd.rank())  # different at first: the broadcast makes them one
    data = torch.Generator().manual_seed(1000 + hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    losses = []
    for _ in range(steps):
        points, values = batch(data)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(points), values)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    mine = digest(model)
    first, last = losses[0], losses[-1]
    where = f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()}"
    print(f"{where}: loss {first:.4f} to {last:.4f}, parameters {mine}", flush=True)
    agree = len(set(hvd.allgather_object(mine))) == 1
    fell = min(hvd.allgather_object(last < first / 2))
    if hvd.rank() == 0:
        print(f"{hvd.size()} ranks {'agree' if agree else 'DIFFER'}, losses {'fell' if fell else 'did NOT fall'}")
    return 0 if agree and fell else 1


if __name__ == "__main__":
    sys.exit(main())
