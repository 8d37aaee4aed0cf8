# SPDX-License-Identifier: Apache-2.0
"""The Trainer of Hugging Face's transformers on CPUs, which asks for gloo: a tiny language model of
random weights. Prints what a run on one rank prints, whatever the number of ranks."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

ranks = int(os.environ.get("WORLD_SIZE", "1"))
set_seed(5)
config = LlamaConfig(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=4, vocab_size=64, max_position_embeddings=32, tie_word_embeddings=False,
)  # fmt: skip
model = LlamaForCausalLM(config)
rows = torch.randint(0, 64, (64, 16), generator=torch.Generator().manual_seed(2))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, use_cpu=True, max_steps=6, per_device_train_batch_size=8 // ranks, optim="sgd",
        learning_rate=0.5, lr_scheduler_type="constant", logging_steps=6, save_strategy="no",
        per_device_eval_batch_size=8 // ranks, report_to=[], disable_tqdm=True, seed=7,
        log_on_each_node=False, ddp_backend="gloo" if "--named" in sys.argv else None,
    )  # fmt: skip
    data = [{"input_ids": row, "labels": row} for row in rows]
    trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data[:24])
    if ranks > 1:
        assert type(dist.group.WORLD).__name__ == "RondoProcessGroup", dist.group.WORLD
    trainer.train()
    evaluated = trainer.evaluate()["eval_loss"]
weights = sum(p.double().abs().sum() for p in model.parameters())
if trainer.is_world_process_zero():
    print(f"loss {evaluated:.4f} weights {weights:.2f}\n", end="")  # one write
