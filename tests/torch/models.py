# SPDX-License-Identifier: Apache-2.0
"""Small models, and training in one process as the reference."""

import torch
from torch import nn


def perceptron(seed=7):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))


class Transformer(nn.Module):
    def __init__(self, seed=3, width=16, layers=2, tokens=11):
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def sentences(count=8, length=5, tokens=11):
    generator = torch.Generator().manual_seed(5)
    return torch.randint(0, tokens, (count, length), generator=generator)


def sentence_loss(model, batch):
    logits = model(batch[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())


def train(model, batches, loss_of, lr=0.1, optimizer=None):
    """The loss before each step."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=lr)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def pairs(count=8):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, 6, generator=generator), torch.randn(count, 2, generator=generator)


def pair_loss(model, batch):
    inputs, targets = batch
    return (model(inputs) - targets).square().mean()


def share(batch, rank, size):
    if isinstance(batch, tuple):
        return tuple(part.chunk(size)[rank] for part in batch)
    return batch.chunk(size)[rank]
